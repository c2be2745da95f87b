//! Reads one row group or stripe: the filter's columns first, the others only if rows pass.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch},
    buffer::BooleanBuffer,
    datatypes::{DataType, Field},
};
use futures::{FutureExt, StreamExt};
use stylobate_storage::{OpenObject, Trace, run_blocking};
use tokio::sync::mpsc;

use super::{
    batches::{self, BatchShape},
    fitting::FittingBatches,
    load::{LoadOutcome, LoadedChunks, are_cached, load},
    narrow::{RowGroupAccess, STREAMED_ROWS, narrow},
    plan::{PlannedRowGroup, PlannedScanFile, ScanPlan},
    turn::RowGroupTurn,
};
use crate::{
    Error, Result,
    cache::{DecodeReservation, workers::DecodeWorkers},
    chunk::{Chunk, ChunkRepresentation, ChunkRequest, ColumnBatch, PassingRows, SEGMENT_ROWS},
    file::schema::{ProjectedColumn, value_type},
    format::index::RowGroupSubset,
    kernels::exact_cast::common_cast,
    predicate::{BoundPredicate, Evaluator},
    table::{FileColumn, FilterColumn, OutputColumn},
};

/// Channel to the reader, which applies backpressure if the reader is slow.
pub(super) type BatchSender = mpsc::Sender<Result<Vec<RecordBatch>>>;

/// Bytes of batches that are built before they are sent: few enough that their memory is reused while it is in the CPU
/// cache.
const BATCH_GROUP_BYTES: usize = 2 << 20;
/// Bytes that an array takes besides its values: they dominate if thousands of columns have batches of a few rows.
const BYTES_PER_ARRAY: usize = 256;

/// Reads a row group, and sends its batches, or the error that ends them.
pub(super) async fn run(
    planned: Arc<ScanPlan>,
    workers: DecodeWorkers,
    row_group: PlannedRowGroup,
    turn: RowGroupTurn,
    batches: BatchSender,
) {
    if let Err(error) = read(planned, workers, row_group, turn, &batches).await {
        // The reader may be gone.
        let _ = batches.send(Err(error)).await;
    }
}

async fn read(
    planned: Arc<ScanPlan>,
    workers: DecodeWorkers,
    row_group: PlannedRowGroup,
    mut turn: RowGroupTurn,
    batches: &BatchSender,
) -> Result<()> {
    let Some(file) = planned.files.get(row_group.file) else { return Ok(()) };
    let filter = planned.filter.as_ref().filter(|_| !row_group.all_pass);

    let mut keep = None;
    if let Some(filter) = filter {
        let wanted = wanted_by_filter(&planned, file, row_group.index);
        // Row numbers are known only if all rows are read.
        if !file.has_row_numbers() && !are_cached(&planned, row_group.file, row_group.index, &wanted) {
            let columns = read_columns(file, Some(filter));
            match narrow(&planned, &workers, row_group, filter, &columns).await? {
                RowGroupAccess::Whole => {}
                RowGroupAccess::Nothing => {
                    planned.cache.chunks().count_pruned(1);
                    return Ok(());
                }
                RowGroupAccess::Few(selected, working) => {
                    planned.cache.chunks().count_selected();
                    turn.pass_on();
                    return stream(planned, row_group, Some((selected, working)), batches).await;
                }
            }
        }

        let Some(loaded) = load_in_turn(&planned, &workers, row_group, wanted, None, &mut turn).await? else {
            return stream(planned, row_group, None, batches).await;
        };
        let passing = {
            let planned = planned.clone();
            let mut evaluator = filter.evaluator();
            workers.run(move || passing(&planned, row_group, &loaded, &mut evaluator)).await??
        };
        let passing = PassingRows::new(passing);
        if passing.count() == 0 {
            return Ok(());
        }
        keep = Some(passing)
            .filter(|passing| !planned.is_optional || is_worth_filtering(passing, row_group.rows));
    }

    let wanted = planned
        .outputs
        .iter()
        .zip(&file.outputs)
        .filter_map(|(output, column)| wanted(file, row_group.index, output, column));
    let passing = keep.as_ref().filter(|_| !file.has_row_numbers());
    let loaded = load_in_turn(&planned, &workers, row_group, wanted.collect(), passing, &mut turn).await?;
    let Some(loaded) = loaded else {
        return stream(planned, row_group, None, batches).await;
    };

    let mut rows = row_group.rows as usize;
    if loaded.are_filtered() {
        rows = keep.take().map_or(rows, |passing| passing.count());
    }
    let loaded = Arc::new(loaded);
    let build = |range: Range<usize>| {
        let planned = planned.clone();
        let loaded = loaded.clone();
        let keep = keep.clone();
        workers.run(move || build(&planned, row_group, &loaded, keep.as_ref(), range))
    };
    let (mut built, mut reached) = build(0..rows).await??;

    // Ranges of the same number of rows have about the same number of bytes, so several are built concurrently.
    let step = reached.max(1);
    let ranges = (reached..rows).step_by(step).map(|start| start..rows.min(start + step));
    let ahead = ranges.map(|range| build(range.clone()).map(|done| (range, done)));
    let mut ahead = futures::stream::iter(ahead).buffered(planned.threads);
    let mut end = reached;

    loop {
        if !built.is_empty() && batches.send(Ok(built)).await.is_err() {
            return Ok(());
        }
        let done = if reached < end {
            build(reached..end).await
        } else {
            let Some((range, done)) = ahead.next().await else { return Ok(()) };
            end = range.end;
            done
        };
        (built, reached) = done??;
    }
}

/// Returns whether dropping rows saves more than copying the others costs.
fn is_worth_filtering(passing: &PassingRows, rows: u64) -> bool {
    (passing.count() as u64).saturating_mul(10) <= rows.saturating_mul(9)
}

/// Loads columns, if necessary after earlier row groups have released their memory; `None` if they never fit. This
/// cannot deadlock: a waiting row group holds nothing that other scans wait for, and the earlier row groups have the
/// same reader.
async fn load_in_turn(
    planned: &ScanPlan,
    workers: &DecodeWorkers,
    row_group: PlannedRowGroup,
    wanted: Vec<ChunkRequest>,
    passing: Option<&PassingRows>,
    turn: &mut RowGroupTurn,
) -> Result<Option<LoadedChunks>> {
    loop {
        let is_first = turn.begin().await;
        match load(planned, workers, (row_group.file, row_group.index), wanted.clone(), passing, turn).await?
        {
            LoadOutcome::Done(loaded) => return Ok(Some(loaded)),
            LoadOutcome::Busy if !is_first && turn.wait().await => {}
            LoadOutcome::Busy | LoadOutcome::TooLarge => {
                turn.pass_on();
                return Ok(None);
            }
        }
    }
}

/// Returns the chunk that an output column needs. A column that must be a dictionary shares the native chunk if the
/// file stores it as a dictionary.
fn wanted(
    file: &PlannedScanFile,
    row_group: usize,
    output: &OutputColumn,
    column: &FileColumn,
) -> Option<ChunkRequest> {
    let FileColumn::Read(projected) = column else { return None };
    let made = output.insist && !file.metadata.is_dictionary(row_group, projected);
    let representation = if made { ChunkRepresentation::Dictionary } else { ChunkRepresentation::Native };
    Some((projected.clone(), representation))
}

/// Returns the chunks that the filter needs, shared with output columns if possible.
fn wanted_by_filter(planned: &ScanPlan, file: &PlannedScanFile, row_group: usize) -> Vec<ChunkRequest> {
    let shared = |column: &FileColumn| {
        let FileColumn::Read(projected) = column else { return None };
        let outputs = planned.outputs.iter().zip(&file.outputs);
        let outputs = outputs.filter_map(|(output, column)| wanted(file, row_group, output, column));
        let mut same = outputs.filter(|(output, _)| output == projected);
        Some(same.next().unwrap_or_else(|| (projected.clone(), ChunkRepresentation::Native)))
    };
    file.filtered.iter().filter_map(shared).collect()
}

/// Evaluates the filter, segment by segment.
fn passing(
    planned: &ScanPlan,
    row_group: PlannedRowGroup,
    loaded: &LoadedChunks,
    evaluator: &mut Evaluator,
) -> Result<Vec<BooleanBuffer>> {
    let Some(file) = planned.files.get(row_group.file) else { return Ok(Vec::new()) };
    let mut wanted = wanted_by_filter(planned, file, row_group.index).into_iter();
    let wanted: Vec<Option<ChunkRequest>> = file
        .filtered
        .iter()
        .map(|column| if matches!(column, FileColumn::Read(_)) { wanted.next() } else { None })
        .collect();

    let rows = row_group.rows as usize;
    let first_row = file.first_row(row_group.index);
    let segments = (0..rows).step_by(SEGMENT_ROWS).map(|start| {
        let count = SEGMENT_ROWS.min(rows - start);
        let columns = file.filtered.iter().zip(&wanted).zip(&planned.filtered).map(
            |((column, wanted), FilterColumn { field, .. })| match (column, wanted) {
                (FileColumn::Value(value), _) => batches::repeated(value, count, field.data_type()),
                (FileColumn::RowNumber, _) => Ok(row_numbers(first_row + start, count)),
                (FileColumn::Read(_), Some(wanted)) => {
                    let slice = loaded.chunk(wanted).and_then(|chunk| chunk.slice(start, count));
                    as_filtered(&file.object, slice.ok_or_else(missing_chunk)?, field)
                }
                (FileColumn::Read(_), None) => Err(missing_chunk()),
            },
        );
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        evaluator.evaluate(&columns, count)
    });
    segments.collect()
}

/// Returns the number of bytes of a batch that are not shared with the columns from which it was built.
fn new_bytes(batch: &RecordBatch, columns: &[ArrayRef]) -> usize {
    let made = batch
        .columns()
        .iter()
        .zip(columns)
        .filter(|(made, of)| made.data_type() != of.data_type() || made.len() != of.len());
    let new = |(made, of): (&ArrayRef, &ArrayRef)| {
        if let (Some(made), Some(of)) = (made.as_any_dictionary_opt(), of.as_any_dictionary_opt())
            && Arc::ptr_eq(made.values(), of.values())
        {
            return made.keys().get_array_memory_size();
        }
        match made.data_type() {
            // The values of views are shared.
            DataType::Utf8View | DataType::BinaryView => made.len() * size_of::<u128>(),
            _ => made.get_array_memory_size(),
        }
    };
    made.map(new).sum()
}

/// Returns whether all columns are dictionaries that batches share with the cache: in that case batches of any length
/// cost the same.
fn are_shared_dictionaries(
    planned: &ScanPlan,
    file: &PlannedScanFile,
    row_group: usize,
    loaded: &LoadedChunks,
) -> bool {
    planned.outputs.iter().zip(&file.outputs).all(|(output, column)| {
        let chunk = wanted(file, row_group, output, column).and_then(|wanted| loaded.chunk(&wanted));
        matches!(chunk, Some(Chunk::Dictionary(array)) if array.data_type() == output.field.data_type())
    })
}

/// Returns row numbers of a file as a column.
fn row_numbers(first: usize, count: usize) -> ArrayRef {
    Arc::new((first..first + count).map(|row| row as i64).collect::<Int64Array>())
}

/// Returns the error of a chunk that was not loaded.
fn missing_chunk() -> Error {
    Error::Ended { reason: "a column is not what its footer says".to_owned() }
}

/// Builds the batches of the next rows, about [`BATCH_GROUP_BYTES`], and returns the row that follows them.
fn build(
    planned: &ScanPlan,
    row_group: PlannedRowGroup,
    loaded: &LoadedChunks,
    keep: Option<&PassingRows>,
    rows: Range<usize>,
) -> Result<(Vec<RecordBatch>, usize)> {
    let Some(file) = planned.files.get(row_group.file) else { return Ok((Vec::new(), rows.end)) };

    let first_row = file.first_row(row_group.index);
    let shape = BatchShape {
        schema: &planned.schema,
        outputs: &planned.outputs,
        codes: planned.codes,
        views: Some(loaded.views()),
    };
    let is_long = planned.long_batches
        && keep.is_none()
        && are_shared_dictionaries(planned, file, row_group.index, loaded);
    let batch_rows = if is_long { rows.end } else { planned.batch_rows };
    let mut built = Vec::new();
    let mut bytes = 0;
    let mut start = rows.start;

    while start < rows.end && bytes < BATCH_GROUP_BYTES {
        let in_segment = start % SEGMENT_ROWS;
        let max_rows = if is_long { rows.end - start } else { SEGMENT_ROWS - in_segment };
        let max_rows = max_rows.min(rows.end - start);
        let keep = keep.and_then(|keep| keep.segment(start / SEGMENT_ROWS));

        // Few passing rows of a segment make one batch.
        let fits = keep.is_some_and(|keep| keep.slice(in_segment, max_rows).count_set_bits() <= batch_rows);
        let mut count = if fits { max_rows } else { max_rows.min(batch_rows) };
        let mut keep = keep.map(|keep| keep.slice(in_segment, count));

        if keep.as_ref().is_none_or(|keep| keep.count_set_bits() > 0) {
            let columns = planned.outputs.iter().zip(&file.outputs).map(|(output, column)| match column {
                FileColumn::Value(value) => batches::repeated(value, count, output.field.data_type()),
                FileColumn::RowNumber => Ok(row_numbers(first_row + start, count)),
                FileColumn::Read(_) => {
                    let chunk = wanted(file, row_group.index, output, column)
                        .and_then(|wanted| loaded.chunk(&wanted));
                    chunk.and_then(|chunk| chunk.slice(start, count)).ok_or_else(missing_chunk)
                }
            });
            let mut columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;

            let is_wide = || loaded.longest_value().saturating_mul(count) > batches::MAX_EXPANDED;
            let may_exceed = !planned.codes && (planned.has_narrow_keys() || is_wide());
            let fitting = if may_exceed || planned.has_narrow_nested_keys() {
                batches::fitting_rows(&planned.outputs, &columns, count, planned.codes)
            } else {
                count
            };

            if fitting < count {
                count = fitting;
                columns.iter_mut().for_each(|column| *column = column.slice(0, count));
                keep = keep.map(|keep| keep.slice(0, count));
            }
            if keep.as_ref().is_some_and(|keep| keep.count_set_bits() == 0) {
                start += count;
                continue;
            }

            let batch = batches::batch(&file.object, &shape, &columns, count, keep.as_ref())?;
            bytes += new_bytes(&batch, &columns) + BYTES_PER_ARRAY * columns.len();
            built.push(batch);
        }
        start += count;
    }

    Ok((built, start))
}

/// Returns all columns of a file that are read, in ascending order.
fn read_columns(file: &PlannedScanFile, filter: Option<&BoundPredicate>) -> Vec<ProjectedColumn> {
    let read = |column: &FileColumn| match column {
        FileColumn::Read(projected) => Some(projected.clone()),
        FileColumn::Value(_) | FileColumn::RowNumber => None,
    };
    let filtered = filter.map_or(&[][..], |_| &file.filtered);
    let mut columns: Vec<ProjectedColumn> = file.outputs.iter().chain(filtered).filter_map(read).collect();
    columns.sort();
    columns.dedup();
    columns
}

/// Reads a row group batch by batch without whole columns in memory: all of it, or the selected pages or strides.
async fn stream(
    planned: Arc<ScanPlan>,
    row_group: PlannedRowGroup,
    selected: Option<(RowGroupSubset, DecodeReservation)>,
    batches: &BatchSender,
) -> Result<()> {
    if selected.is_none() {
        planned.cache.chunks().count_streamed();
    }

    let runtime = tokio::runtime::Handle::current();
    let batches = batches.clone();
    let trace = Trace::current();
    // Runs outside the decode workers: it waits for the reader, which may need row groups that the workers decode.
    let read = move || {
        let Some(file) = planned.files.get(row_group.file) else { return Ok(()) };
        let filter = planned.filter.as_ref().filter(|_| !row_group.all_pass);
        let mut evaluator = filter.map(BoundPredicate::evaluator);
        let columns = read_columns(file, filter);
        let fitting = file.metadata.fitting_rows(row_group.index, &columns, batches::MAX_EXPANDED as u64);
        let rows = STREAMED_ROWS.min(planned.batch_rows).min(fitting as usize).max(1);
        let (selected, _working) = selected.unzip();
        let open = |rows| -> Result<Box<dyn Iterator<Item = Result<ColumnBatch>> + '_>> {
            Ok(match &selected {
                Some(selected) => file.metadata.selected_rows(selected, rows)?,
                None => file.metadata.stream(&file.object, row_group.index, &columns, rows, &runtime)?,
            })
        };

        let mut next_row = file.first_row(row_group.index);
        // Ends with the reader, even if the filter leaves nothing to send.
        let mut read = FittingBatches::new(rows, open)?.take_while(|_| !batches.is_closed());
        // Reads only as much as the channel has room for: batches may be large.
        while let Ok(room) = runtime.block_on(batches.reserve()) {
            let made = read.by_ref().map(|read| {
                let (read, count) = read?;
                let first = next_row;
                next_row += count;
                streamed(&planned, file, evaluator.as_mut(), &columns, &read, first, count)
            });
            let mut some = made.filter(|made| made.as_ref().map_or(true, |made| !made.is_empty()));
            match some.next() {
                Some(made) => room.send(Ok(made?)),
                None => break,
            }
        }
        Ok(())
    };
    run_blocking(move || trace.enter(read)).await?
}

/// Builds the batches of some rows of `columns`; none if no row passes the filter.
fn streamed(
    planned: &ScanPlan,
    file: &PlannedScanFile,
    evaluator: Option<&mut Evaluator>,
    columns: &[ProjectedColumn],
    read: &[ArrayRef],
    first_row: usize,
    count: usize,
) -> Result<Vec<RecordBatch>> {
    let find = |column: &FileColumn, field: &Field| match column {
        FileColumn::Value(value) => batches::repeated(value, count, field.data_type()),
        FileColumn::RowNumber => Ok(row_numbers(first_row, count)),
        FileColumn::Read(projected) => {
            let at = columns.binary_search(projected).ok();
            at.and_then(|at| read.get(at)).cloned().ok_or_else(missing_chunk)
        }
    };

    let keep = match evaluator {
        Some(evaluator) => {
            let arrays = file.filtered.iter().zip(&planned.filtered);
            let arrays =
                arrays.map(|(column, of)| as_filtered(&file.object, find(column, &of.field)?, &of.field));
            Some(evaluator.evaluate(&arrays.collect::<Result<Vec<_>>>()?, count)?)
        }
        None => None,
    };
    if keep.as_ref().is_some_and(|keep| keep.count_set_bits() == 0) {
        return Ok(Vec::new());
    }

    let arrays =
        planned.outputs.iter().zip(&file.outputs).map(|(output, column)| find(column, &output.field));
    let mut arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
    let schema = &planned.schema;
    let outputs = &planned.outputs;
    let shape = BatchShape { schema, outputs, codes: planned.codes, views: None };
    let mut made = Vec::new();
    let mut left = count;
    let mut keep = keep;
    while left > 0 {
        let rows = batches::fitting_rows(&planned.outputs, &arrays, left, planned.codes);
        let of_rows: Vec<ArrayRef> = arrays.iter().map(|array| array.slice(0, rows)).collect();
        let kept = keep.as_ref().map(|keep| keep.slice(0, rows));
        if kept.as_ref().is_none_or(|kept| kept.count_set_bits() > 0) {
            made.push(batches::batch(&file.object, &shape, &of_rows, rows, kept.as_ref())?);
        }
        left -= rows;
        arrays.iter_mut().for_each(|array| *array = array.slice(rows, left));
        keep = keep.map(|keep| keep.slice(rows, left));
    }
    Ok(made)
}

/// Casts a column to the type that the filter was bound to.
fn as_filtered(object: &OpenObject, array: ArrayRef, field: &Field) -> Result<ArrayRef> {
    let target = value_type(field.data_type());
    if value_type(array.data_type()) == target {
        return Ok(array);
    }
    common_cast(&array, target).map_err(|error| batches::no_common(object, field, &error))
}
