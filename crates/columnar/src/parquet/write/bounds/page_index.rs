//! Builds the column index of a chunk: bounds are no longer than needed to distinguish each page from its
//! neighbours.

use std::cmp::Ordering;

use parquet::{
    basic::{BoundaryOrder, Type as PhysicalType},
    file::{metadata::ColumnIndexBuilder, page_index::column_index::ColumnIndexMetaData},
};

use crate::parquet::write::codebook::order::{MAX_BYTES, PlainValueOrder};

/// Bytes of a bound that are kept after the prefix it shares with a neighbour's bound.
const DISTINCT_BYTES: usize = 16;

/// Minimum and maximum.
type ByteBounds = (Vec<u8>, Vec<u8>);

pub(crate) struct PageIndexBuilder {
    physical: PhysicalType,
    order: PlainValueOrder,
    pages: Vec<PageIndexEntry>,
}

struct PageIndexEntry {
    /// Truncated to the maximum length of a bound.
    bounds: Option<ByteBounds>,
    nulls: usize,
}

impl PageIndexBuilder {
    pub(crate) fn new(physical: PhysicalType, order: PlainValueOrder) -> Self {
        Self { physical, order, pages: Vec::new() }
    }

    /// Adds a page with these bounds, if it has any.
    pub(crate) fn push(&mut self, bounds: Option<(&[u8], &[u8])>, nulls: usize) {
        let order = self.order;
        let cut = |(min, max)| (order.cut_min(min, MAX_BYTES).0, order.cut_max(max, MAX_BYTES).0);
        self.pages.push(PageIndexEntry { bounds: bounds.map(cut), nulls });
    }

    pub(crate) fn build(self) -> Option<ColumnIndexMetaData> {
        let order = self.order;
        let bounds = || self.pages.iter().filter_map(|page| page.bounds.as_ref());
        let lengths = |values: Vec<&[u8]>| match self.physical {
            PhysicalType::BYTE_ARRAY => lengths_apart(&values),
            // Values of fixed length keep that length, since readers ignore shorter bounds.
            _ => vec![MAX_BYTES; values.len()],
        };
        let min_lengths = lengths(bounds().map(|(min, _)| min.as_slice()).collect());
        let max_lengths = lengths(bounds().map(|(_, max)| max.as_slice()).collect());
        let cut: Vec<ByteBounds> = bounds()
            .zip(min_lengths.into_iter().zip(max_lengths))
            .map(|((min, max), (min_len, max_len))| {
                (order.cut_min(min, min_len).0, order.cut_max(max, max_len).0)
            })
            .collect();
        let mut index = ColumnIndexBuilder::new(self.physical);
        index.set_boundary_order(boundary_order(order, &cut));
        let mut cut = cut.into_iter();

        for page in &self.pages {
            match page.bounds.as_ref().and_then(|_| cut.next()) {
                Some((min, max)) => index.append(false, min, max, page.nulls as i64),
                None => index.append(true, Vec::new(), Vec::new(), page.nulls as i64),
            }
        }

        index.build().ok()
    }
}

/// Returns the length of the prefix of each value that it shares with a neighbour, plus [`DISTINCT_BYTES`].
fn lengths_apart(values: &[&[u8]]) -> Vec<usize> {
    let in_common = |pair: &[&[u8]]| match pair {
        [one, next] => one.iter().zip(*next).take_while(|(one, next)| one == next).count(),
        _ => MAX_BYTES,
    };
    let common: Vec<usize> = values.windows(2).map(in_common).collect();
    let behind = common.iter().copied().map(Some).chain([None]);
    let before = std::iter::once(None).chain(common.iter().copied().map(Some));
    before
        .zip(behind)
        .map(|(before, behind)| before.max(behind).unwrap_or(MAX_BYTES) + DISTINCT_BYTES)
        .collect()
}

/// Returns whether the bounds ascend or descend.
fn boundary_order(order: PlainValueOrder, bounds: &[ByteBounds]) -> BoundaryOrder {
    let is_sorted = |wrong: Ordering| {
        bounds.windows(2).all(|pair| match pair {
            [one, next] => order.compare(&one.0, &next.0) != wrong && order.compare(&one.1, &next.1) != wrong,
            _ => true,
        })
    };
    if is_sorted(Ordering::Greater) {
        BoundaryOrder::ASCENDING
    } else if is_sorted(Ordering::Less) {
        BoundaryOrder::DESCENDING
    } else {
        BoundaryOrder::UNORDERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(order: PlainValueOrder, pages: &[(&[u8], &[u8])]) -> (Vec<ByteBounds>, BoundaryOrder) {
        let mut index = PageIndexBuilder::new(PhysicalType::BYTE_ARRAY, order);
        pages.iter().for_each(|page| {
            index.push(Some(*page), 0);
            index.push(None, 7);
        });
        let built = index.build().unwrap();
        let order = built.get_boundary_order().unwrap();
        let ColumnIndexMetaData::BYTE_ARRAY(built) = built else { panic!() };
        let bound = |bytes: Option<&[u8]>| bytes.unwrap().to_vec();
        let pages =
            (0..pages.len()).map(|at| (bound(built.min_value(2 * at)), bound(built.max_value(2 * at))));

        (pages.collect(), order)
    }

    #[test]
    fn bounds_are_cut_behind_what_tells_pages_apart() {
        let text = PlainValueOrder::Bytes { text: true };
        let of = |begin: &str| format!("{begin}{}", "x".repeat(40));
        let min_tail = "x".repeat(16);
        let max_tail = "x".repeat(15);
        let texts = ["http://a/b", "http://a/c", "http://a/d", "zzz"].map(of);
        let pages: Vec<(&[u8], &[u8])> =
            texts.windows(2).map(|pair| (pair[0].as_bytes(), pair[1].as_bytes())).collect();
        let (cut, order) = index(text, &pages);
        assert_eq!(order, BoundaryOrder::ASCENDING);
        let min = |begin: &str| format!("{begin}{}", min_tail.get(1..).unwrap()).into_bytes();

        assert_eq!(
            cut.iter().map(|(min, _)| min.clone()).collect::<Vec<_>>(),
            [min("http://a/b"), min("http://a/c"), min("http://a/d")]
        );
        assert_eq!(cut[0].1, format!("http://a/c{}y", max_tail.get(1..).unwrap()).into_bytes());
        assert_eq!(cut[2].1, format!("zzz{}y", "x".repeat(12)).into_bytes());
        // A page without neighbours, and values that all pages share, are not truncated.
        let one: &[(&[u8], &[u8])] = &pages[..1];
        assert_eq!(index(text, one).0, [(texts[0].clone().into_bytes(), texts[1].clone().into_bytes())]);
        let same = [pages[1]; 3];
        assert!(index(text, &same).0.iter().all(|(min, max)| (min.as_slice(), max.as_slice()) == pages[1]));
    }

    #[test]
    fn cut_bounds_of_any_letters_are_ordered_as_the_pages_are() {
        let long = format!("a{}", "\u{e9}".repeat(50));
        let pages: [(&[u8], &[u8]); 2] = [(b"a", long.as_bytes()), (b"aa", "a\u{ea}".as_bytes())];
        let (cut, order) = index(PlainValueOrder::Bytes { text: true }, &pages);
        let max = format!("a{}\u{ea}", "\u{e9}".repeat(7));
        assert_eq!((cut[0].1.as_slice(), order), (max.as_bytes(), BoundaryOrder::ASCENDING));
    }

    #[test]
    fn values_of_one_length_keep_it() {
        let mut index =
            PageIndexBuilder::new(PhysicalType::FIXED_LEN_BYTE_ARRAY, PlainValueOrder::Bytes { text: false });
        let pages = [[1_u8; 32], [2; 32], [3; 32]];
        pages.iter().for_each(|page| index.push(Some((page, page)), 0));
        let Some(ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(built)) = index.build() else { panic!() };
        assert!(
            (0..3)
                .all(|at| built.min_value(at) == Some(&pages[at]) && built.max_value(at) == Some(&pages[at]))
        );
    }
}
