//! Finds the known name that a misspelt one was probably meant to be, for the hints of error messages.

/// Returns the known name that is most similar to `name`, the first of equals, if it differs only in case, in at most
/// one of every three characters (but always in one), or in the enclosing struct: `city` for `address.city`.
///
/// A transposition of two characters counts as one difference (optimal string alignment).
///
/// ```
/// use stylobate_storage::nearest_name;
///
/// let columns = ["l_shipmode", "l_tax"];
/// assert_eq!(nearest_name("l_shipmod", columns), Some("l_shipmode"));
/// assert_eq!(nearest_name("zebra", columns), None);
/// ```
pub fn nearest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let max_distance = (name.chars().count() / 3).max(1);
    let name = name.to_lowercase();

    let distances =
        known.into_iter().map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= max_distance).then_some(nearest)
}

/// Returns the number of edits between two names, or 1 if the second is a field of a struct that has the first name.
fn distance(name: &str, candidate: &str) -> usize {
    let edits = strsim::osa_distance(name, candidate);
    let is_field = candidate.rsplit_once('.').is_some_and(|(_, field)| field == name);
    if is_field { edits.min(1) } else { edits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_differ_in_one_of_every_three_characters_and_always_in_one() {
        assert_eq!(nearest_name("tt", ["t", "numbers"]), Some("t"));
        assert_eq!(nearest_name("numbr", ["t", "numbers"]), None);
        assert_eq!(nearest_name("numbrs", ["t", "numbers"]), Some("numbers"));
        assert_eq!(nearest_name("lineitm", ["orders", "lineitem"]), Some("lineitem"));
        assert_eq!(nearest_name("t", []), None);
    }

    #[test]
    fn a_transposition_is_one_difference() {
        assert_eq!(nearest_name("nmae", ["id", "name"]), Some("name"));
        assert_eq!(nearest_name("ordres", ["orders"]), Some("orders"));
    }

    #[test]
    fn case_and_the_enclosing_struct_are_ignored() {
        assert_eq!(nearest_name("lastname", ["firstName", "lastName"]), Some("lastName"));
        assert_eq!(nearest_name("CITY", ["name", "address.city"]), Some("address.city"));
        assert_eq!(nearest_name("city", ["address.city", "city"]), Some("city"));
    }

    #[test]
    fn the_first_of_equally_similar_names_wins() {
        assert_eq!(nearest_name("part1", ["part2", "part3"]), Some("part2"));
    }
}
