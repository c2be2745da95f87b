//! Names of people.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, StringArray};

/// First names.
pub(super) static FIRST: LazyLock<ArrayRef> = LazyLock::new(|| {
    Arc::new(StringArray::from_iter_values([
        "Ada", "Akira", "Amara", "Anton", "Astrid", "Aylin", "Bela", "Boris", "Carmen", "Chen", "Clara",
        "Dalia", "David", "Diego", "Elena", "Emil", "Esther", "Fatima", "Felix", "Flora", "Georg", "Gita",
        "Hana", "Hugo", "Ida", "Igor", "Ines", "Ivan", "Jan", "Jelena", "Jonas", "Jun", "Kemal", "Kira",
        "Lars", "Leila", "Leo", "Lin", "Lucia", "Mateo", "Maya", "Mei", "Milan", "Mira", "Nadia", "Nils",
        "Nora", "Olga", "Omar", "Otto", "Pablo", "Petra", "Priya", "Ravi", "Rosa", "Samir", "Sara", "Sven",
        "Tara", "Tomas", "Uma", "Vera", "Yara", "Zoran",
    ]))
});

/// Last names.
pub(super) static LAST: LazyLock<ArrayRef> = LazyLock::new(|| {
    Arc::new(StringArray::from_iter_values([
        "Abe",
        "Aguilar",
        "Ahmed",
        "Alvarez",
        "Bauer",
        "Becker",
        "Bose",
        "Castro",
        "Chaudhry",
        "Costa",
        "Das",
        "Demir",
        "Diaz",
        "Dubois",
        "Eriksen",
        "Fernandez",
        "Fischer",
        "Fujita",
        "Gomez",
        "Gupta",
        "Haddad",
        "Hansen",
        "Horvath",
        "Huber",
        "Ibrahim",
        "Ito",
        "Ivanov",
        "Jansen",
        "Kaya",
        "Keller",
        "Kim",
        "Kovac",
        "Kumar",
        "Larsen",
        "Lee",
        "Li",
        "Lima",
        "Mazur",
        "Mehta",
        "Meyer",
        "Moreau",
        "Mori",
        "Nagy",
        "Novak",
        "Okafor",
        "Pereira",
        "Petrov",
        "Popescu",
        "Ramos",
        "Rao",
        "Rossi",
        "Sato",
        "Schmidt",
        "Silva",
        "Singh",
        "Suzuki",
        "Tanaka",
        "Toth",
        "Virtanen",
        "Wagner",
        "Wang",
        "Weber",
        "Yilmaz",
        "Zhang",
    ]))
});
