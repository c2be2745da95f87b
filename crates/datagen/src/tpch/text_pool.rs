//! The text pool of TPC-H's comments: sentences of the specified grammar, drawn by the specified random numbers. The
//! generators' own implementation takes three times as long for the same text: a quarter of the time to generate a
//! small table.

use std::sync::LazyLock;

use tpchgen::distribution::{Distribution, Distributions};

/// Size of the text in bytes.
const SIZE: usize = 300 << 20;
/// Maximum length of a sentence in bytes.
const SENTENCE: usize = 1024;
/// Number of bytes copied per word, regardless of its length.
const WORD: usize = 32;
/// Parameters of the random numbers: powers of the multiplier modulo the modulus.
const SEED: i64 = 933_588_178;
const MULTIPLIER: i64 = 16_807;
const BITS: u32 = 31;
const MODULUS: i64 = (1 << BITS) - 1;

/// Returns the text, which is ASCII. The first call generates it.
pub(crate) fn text_pool() -> &'static [u8] {
    static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| make_text(SIZE));
    &TEXT
}

/// Generates the first `size` bytes of the text.
pub(crate) fn make_text(size: usize) -> Vec<u8> {
    let grammar = TextGrammar::new(Distributions::static_default());
    let mut text = TextPoolWriter { bytes: vec![0; size + SENTENCE], len: 0, random: SEED };
    while text.len < size {
        text.sentence(&grammar);
    }
    text.bytes.truncate(size);
    text.bytes
}

/// Possible next values, each repeated according to its weight.
struct WeightedChoice<T> {
    values: Vec<T>,
    many: f64,
}

impl<T: Clone> WeightedChoice<T> {
    fn new(of: &Distribution, value: impl Fn(&str) -> T) -> Self {
        let mut values = Vec::new();
        for index in 0..of.size() {
            let end = usize::try_from(of.get_weight(index)).unwrap_or_default();
            values.resize(end, value(of.get_value(index)));
        }
        let many = values.len() as f64;
        Self { values, many }
    }
}

/// A word and the character that follows it.
#[derive(Clone, Copy)]
struct PoolWord {
    bytes: [u8; WORD],
    len: usize,
}

impl PoolWord {
    fn new(word: &str, behind: &str) -> Self {
        let mut bytes = [0; WORD];
        let len = word.len() + behind.len();
        bytes.iter_mut().zip(word.bytes().chain(behind.bytes())).for_each(|(to, byte)| *to = byte);
        Self { bytes, len: len.min(WORD) }
    }
}

type WordChoice = WeightedChoice<PoolWord>;

/// Parts of a sentence.
#[derive(Clone, Copy)]
enum SentencePart {
    Nouns,
    Verbs,
    Preposition,
    End,
}

/// Parts of a phrase.
#[derive(Clone, Copy)]
enum PhrasePart {
    Adjective,
    Adverb,
    Article,
    Auxiliary,
    Noun,
    Verb,
    Comma,
}

struct TextGrammar {
    sentences: WeightedChoice<Vec<SentencePart>>,
    nouns: WeightedChoice<Vec<PhrasePart>>,
    verbs: WeightedChoice<Vec<PhrasePart>>,
    adjectives: WordChoice,
    adverbs: WordChoice,
    articles: WordChoice,
    auxiliaries: WordChoice,
    noun: WordChoice,
    verb: WordChoice,
    prepositions: WordChoice,
    ends: WordChoice,
    comma: PoolWord,
}

impl TextGrammar {
    fn new(of: &Distributions) -> Self {
        let part = |letter| match letter {
            'N' => Some(SentencePart::Nouns),
            'V' => Some(SentencePart::Verbs),
            'P' => Some(SentencePart::Preposition),
            'T' => Some(SentencePart::End),
            _ => None,
        };

        let step = |letter| match letter {
            'J' => Some(PhrasePart::Adjective),
            'D' => Some(PhrasePart::Adverb),
            'A' => Some(PhrasePart::Article),
            'X' => Some(PhrasePart::Auxiliary),
            'N' => Some(PhrasePart::Noun),
            'V' => Some(PhrasePart::Verb),
            ',' => Some(PhrasePart::Comma),
            _ => None,
        };

        let phrase = |syntax: &str| syntax.chars().filter_map(step).collect();
        let word = |word: &str| PoolWord::new(word, " ");
        Self {
            sentences: WeightedChoice::new(of.grammar(), |syntax| syntax.chars().filter_map(part).collect()),
            nouns: WeightedChoice::new(of.noun_phrase(), phrase),
            verbs: WeightedChoice::new(of.verb_phrase(), phrase),
            adjectives: WeightedChoice::new(of.adjectives(), word),
            adverbs: WeightedChoice::new(of.adverbs(), word),
            articles: WeightedChoice::new(of.articles(), word),
            auxiliaries: WeightedChoice::new(of.auxiliaries(), word),
            noun: WeightedChoice::new(of.nouns(), word),
            verb: WeightedChoice::new(of.verbs(), word),
            prepositions: WeightedChoice::new(of.prepositions(), |word| PoolWord::new(word, " the ")),
            ends: WeightedChoice::new(of.terminators(), word),
            comma: word(","),
        }
    }
}

struct TextPoolWriter {
    bytes: Vec<u8>,
    len: usize,
    random: i64,
}

impl TextPoolWriter {
    fn sentence(&mut self, grammar: &TextGrammar) {
        for part in self.choose(&grammar.sentences).into_iter().flatten() {
            match part {
                SentencePart::Nouns => self.phrase(grammar, &grammar.nouns),
                SentencePart::Verbs => self.phrase(grammar, &grammar.verbs),
                SentencePart::Preposition => {
                    self.word(&grammar.prepositions);
                    self.phrase(grammar, &grammar.nouns);
                }
                SentencePart::End => {
                    // Overwrite the blank.
                    self.len = self.len.saturating_sub(1);
                    self.word(&grammar.ends);
                }
            }
        }
    }

    #[inline]
    fn phrase(&mut self, grammar: &TextGrammar, phrases: &WeightedChoice<Vec<PhrasePart>>) {
        for step in self.choose(phrases).into_iter().flatten() {
            let words = match step {
                PhrasePart::Adjective => &grammar.adjectives,
                PhrasePart::Adverb => &grammar.adverbs,
                PhrasePart::Article => &grammar.articles,
                PhrasePart::Auxiliary => &grammar.auxiliaries,
                PhrasePart::Noun => &grammar.noun,
                PhrasePart::Verb => &grammar.verb,
                PhrasePart::Comma => {
                    self.len = self.len.saturating_sub(1);
                    self.push(&grammar.comma);
                    continue;
                }
            };
            self.word(words);
        }
    }

    #[inline]
    fn word(&mut self, words: &WordChoice) {
        if let Some(word) = self.choose(words) {
            self.push(word);
        }
    }

    #[inline]
    fn push(&mut self, word: &PoolWord) {
        if let Some(to) = self.bytes.get_mut(self.len..).and_then(<[u8]>::first_chunk_mut) {
            *to = word.bytes;
        }
        self.len += word.len;
    }

    #[inline]
    fn choose<'a, T>(&mut self, choice: &'a WeightedChoice<T>) -> Option<&'a T> {
        let product = self.random * MULTIPLIER;
        let folded = (product & MODULUS) + (product >> BITS);
        self.random = if folded >= MODULUS { folded - MODULUS } else { folded };
        choice.values.get((self.random as f64 / MODULUS as f64 * choice.many) as i32 as usize)
    }
}

#[cfg(test)]
mod tests {
    use tpchgen::text::TextPool;

    use super::*;

    #[test]
    fn it_is_the_text_of_the_generators() {
        for size in [0, 1, 1000, 20 << 20] {
            let theirs = TextPool::new(size, Distributions::static_default());
            assert!(make_text(size as usize) == theirs.text(0, size).as_bytes(), "{size} bytes");
        }
    }
}
