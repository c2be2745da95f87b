//! Rows of lineitem, written directly into columns. The table has most of the rows of TPC-H: building rows first and
//! looking up their words afterwards would account for a quarter of the time.

use std::{
    hint::black_box,
    sync::{Arc, LazyLock},
};

use arrow::{
    array::{
        ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Int32Array, Int64Array, RecordBatch,
        StringArray, UInt8Array,
    },
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, Schema, SchemaRef, UInt8Type},
    error::ArrowError,
};
use tpchgen::generators::{LineItemGenerator, LineItemGeneratorIterator};
use tpchgen_arrow::LineItemArrow;

use crate::{chunk::BATCH_ROWS, tpch::comments::CommentGenerator};

/// Average length of a comment in bytes, rounded up.
const COMMENT: usize = 28;
/// Number of strings to prefetch before they are copied.
const TOUCHED: usize = 64;
/// Decimal precision of money.
const PRECISION: u8 = 15;
const SCALE: i8 = 2;

/// Batches of lineitem, with words as dictionaries and comments as plain strings.
pub(crate) struct LineItemBatches {
    rows: LineItemGeneratorIterator<'static>,
    comments: CommentGenerator,
    flags: WordDictionaryBuilder,
    statuses: WordDictionaryBuilder,
    instructions: WordDictionaryBuilder,
    modes: WordDictionaryBuilder,
}

impl LineItemBatches {
    pub(crate) fn new(generator: LineItemGenerator<'static>, comments: CommentGenerator) -> Self {
        let (flags, statuses, instructions, modes) = Default::default();
        Self { rows: generator.iter(), comments, flags, statuses, instructions, modes }
    }
}

impl Iterator for LineItemBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut orders: Vec<i64> = Vec::with_capacity(BATCH_ROWS);
        let mut parts: Vec<i64> = Vec::with_capacity(BATCH_ROWS);
        let mut suppliers: Vec<i64> = Vec::with_capacity(BATCH_ROWS);
        let mut numbers: Vec<i32> = Vec::with_capacity(BATCH_ROWS);
        let mut money = [const { Vec::new() }; 4];
        money.iter_mut().for_each(|column: &mut Vec<i128>| column.reserve(BATCH_ROWS));
        let [quantities, prices, discounts, taxes] = &mut money;
        let mut days = [const { Vec::new() }; 3];
        days.iter_mut().for_each(|column: &mut Vec<i32>| column.reserve(BATCH_ROWS));
        let [shipped, committed, received] = &mut days;

        let mut comments = Vec::with_capacity(BATCH_ROWS);

        for row in self.rows.by_ref().take(BATCH_ROWS) {
            if row.l_linenumber == 1 {
                self.comments.begin_unit();
            }
            orders.push(row.l_orderkey);
            parts.push(row.l_partkey);
            suppliers.push(row.l_suppkey);
            numbers.push(row.l_linenumber);
            quantities.push(i128::from(row.l_quantity * 100));
            prices.push(i128::from(row.l_extendedprice.into_inner()));
            discounts.push(i128::from(row.l_discount.into_inner()));
            taxes.push(i128::from(row.l_tax.into_inner()));
            self.flags.push(row.l_returnflag);
            self.statuses.push(row.l_linestatus);
            shipped.push(row.l_shipdate.to_unix_epoch());
            committed.push(row.l_commitdate.to_unix_epoch());
            received.push(row.l_receiptdate.to_unix_epoch());
            self.instructions.push(row.l_shipinstruct);
            self.modes.push(row.l_shipmode);
            comments.push(self.comments.next());
        }

        if orders.is_empty() {
            return None;
        }
        let keys: [ArrayRef; 4] = [
            Arc::new(Int64Array::from(orders)),
            Arc::new(Int64Array::from(parts)),
            Arc::new(Int64Array::from(suppliers)),
            Arc::new(Int32Array::from(numbers)),
        ];

        Some(copy_texts(&comments).and_then(|comments| self.batch(keys, money, days, comments)))
    }
}

impl LineItemBatches {
    fn batch(
        &mut self,
        keys: [ArrayRef; 4],
        money: [Vec<i128>; 4],
        days: [Vec<i32>; 3],
        comments: StringArray,
    ) -> Result<RecordBatch, ArrowError> {
        let mut columns: Vec<ArrayRef> = keys.into();
        for column in money {
            let column = Decimal128Array::from(column).with_precision_and_scale(PRECISION, SCALE)?;
            columns.push(Arc::new(column));
        }
        columns.extend([self.flags.take()?, self.statuses.take()?]);
        columns.extend(days.map(|column| Arc::new(Date32Array::from(column)) as ArrayRef));
        columns.extend([self.instructions.take()?, self.modes.take()?, Arc::new(comments)]);
        RecordBatch::try_new(SCHEMA.clone(), columns)
    }
}

/// Copies strings that are scattered over a large memory area. Touches all strings of a block before copying them,
/// so that cache misses overlap.
fn copy_texts(texts: &[&[u8]]) -> Result<StringArray, ArrowError> {
    let mut bytes = Vec::with_capacity(texts.len() * COMMENT);
    for block in texts.chunks(TOUCHED) {
        let ends = |text: &&[u8]| text.first().zip(text.last()).map_or(0, |(a, b)| a ^ b);
        black_box(block.iter().map(ends).fold(0, |all, some| all ^ some));
        block.iter().for_each(|text| bytes.extend_from_slice(text));
    }
    let offsets = OffsetBuffer::from_lengths(texts.iter().map(|text| text.len()));
    StringArray::try_new(offsets, bytes.into(), None)
}

/// Output columns.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let schema = LineItemArrow::schema_ref();
    let data_type = |field: &Field| match field.name().as_str() {
        "l_comment" => DataType::Utf8,
        _ if field.data_type() == &DataType::Utf8View => {
            DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
        }
        _ => field.data_type().clone(),
    };
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_data_type(data_type(field)));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
});

/// Builds a dictionary of few words, each stored at few addresses: a word at a known address need not be read.
struct WordDictionaryBuilder {
    slots: Vec<WordCacheSlot>,
    codes: Vec<u8>,
    texts: Vec<&'static str>,
}

const CACHE_SLOTS: usize = 64;

#[derive(Clone, Copy, Default)]
struct WordCacheSlot {
    address: usize,
    length: usize,
    code: u8,
}

impl Default for WordDictionaryBuilder {
    fn default() -> Self {
        Self { slots: vec![WordCacheSlot::default(); CACHE_SLOTS], codes: Vec::new(), texts: Vec::new() }
    }
}

impl WordDictionaryBuilder {
    fn push(&mut self, text: &'static str) {
        let address = text.as_ptr() as usize;
        let length = text.len();
        let at = (address ^ address >> 6) % CACHE_SLOTS;
        let known = self.slots.get(at).filter(|slot| slot.address == address && slot.length == length);
        let code = match known {
            Some(slot) => slot.code,
            None => self.learn(text, at, WordCacheSlot { address, length, code: 0 }),
        };
        self.codes.push(code);
    }

    /// Returns the code of a word at an unknown address, or at one whose cache slot was overwritten.
    fn learn(&mut self, text: &'static str, at: usize, word: WordCacheSlot) -> u8 {
        let known = self.texts.iter().position(|known| *known == text);
        let code = known.unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        let code = u8::try_from(code).unwrap_or(u8::MAX);
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = WordCacheSlot { code, ..word };
        }
        code
    }

    /// Takes the words collected so far as an array.
    fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let codes = std::mem::replace(&mut self.codes, Vec::with_capacity(BATCH_ROWS));
        let values = Arc::new(StringArray::from_iter_values(&self.texts));
        Ok(Arc::new(DictionaryArray::<UInt8Type>::try_new(UInt8Array::from(codes), values)?))
    }
}
