//! Random small graphs, and the simplest model of their files' contents.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BooleanArray, Int64Array, ListArray, ListBuilder, RecordBatch, StringArray, StringBuilder,
        TimestampMillisecondArray, UInt32Array,
    },
    compute::{cast, take_record_batch},
    datatypes::{DataType, Field, Int32Type, TimeUnit},
};
use proptest::{collection::vec, option, prelude::*, sample::subsequence};
use stylobate_graph::{
    Result,
    graphar::{
        AdjacencyOrder, EdgeWrite, FileType, GraphWriteOptions, GraphWriter, Side, VertexWrite, WrittenGraph,
    },
};
use stylobate_storage::ByteSize;

use super::{
    arriving, batch, cut, folder, numbers, options,
    read_back::{Content, Files, files, info, texts},
};

const ORDERS: [AdjacencyOrder; 4] = [
    AdjacencyOrder::OrderedBySource,
    AdjacencyOrder::OrderedByDest,
    AdjacencyOrder::UnorderedBySource,
    AdjacencyOrder::UnorderedByDest,
];

#[derive(Clone, Debug)]
struct Case {
    file_type: FileType,
    persons: usize,
    towns: usize,
    person_chunk: u64,
    town_chunk: u64,
    edge_chunk: u64,
    /// Ends by index, and the seed of each property.
    edges: Vec<(usize, usize, Option<i64>)>,
    batch_rows: usize,
    orders: Vec<AdjacencyOrder>,
    memory: u64,
    has_text_keys: bool,
    by_index: bool,
    has_split_groups: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = (0..9_usize, 0..5_usize, 1..5_u64, 1..5_u64, 1..5_u64);
    let file_types = prop_oneof![Just(FileType::Parquet), Just(FileType::Orc), Just(FileType::Csv)];
    let memory = prop_oneof![Just(4 << 10), Just(64 << 20)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (sizes, file_types, memory, flags).prop_flat_map(|(sizes, file_type, memory, flags)| {
        let (persons, towns, person_chunk, town_chunk, edge_chunk) = sizes;
        let max_edges = if persons * towns == 0 { 0 } else { 40 };
        let edge = (0..persons.max(1), 0..towns.max(1), option::of(0..9_i64));
        let orders = subsequence(ORDERS.to_vec(), 1..=4);
        (vec(edge, 0..=max_edges), 1..7_usize, orders).prop_map(move |(edges, batch_rows, orders)| Case {
            file_type,
            persons,
            towns,
            person_chunk,
            town_chunk,
            edge_chunk,
            edges,
            batch_rows,
            orders,
            memory,
            has_text_keys: flags.0,
            by_index: flags.1,
            has_split_groups: flags.2,
        })
    })
}

/// Returns a number that is unique per index, in no particular order.
fn key(index: usize) -> i64 {
    (index as i64 * 37 + 11) % 101 - 50
}

impl Case {
    fn options(&self) -> GraphWriteOptions {
        let options = options().with_file_type(self.file_type).with_edge_chunk_size(self.edge_chunk);
        options.with_vertex_chunk_size(self.town_chunk).with_memory(ByteSize::bytes(self.memory))
    }

    fn keys(&self, indexes: impl Iterator<Item = usize>) -> ArrayRef {
        if self.has_text_keys {
            Arc::new(indexes.map(|index| Some(format!("k,{}", key(index)))).collect::<StringArray>())
        } else {
            numbers(indexes.map(key))
        }
    }

    /// Returns persons as they are stored.
    fn person_rows(&self) -> RecordBatch {
        let names = (0..self.persons).map(|row| match row % 4 {
            0 => None,
            1 => Some(String::new()),
            _ => Some(format!("a \"{row}\", é")),
        });
        let isle = (0..self.persons).map(|row| (row % 3 > 0).then_some(row % 2 == 0));
        let mut columns = vec![
            ("id", self.keys(0..self.persons)),
            ("name", Arc::new(names.collect::<StringArray>()) as ArrayRef),
            ("is_left", Arc::new(isle.collect::<BooleanArray>())),
        ];

        if self.file_type != FileType::Csv {
            let lists =
                (0..self.persons).map(|row| (row % 3 > 0).then(|| vec![Some(row as i32); row % 3 - 1]));
            columns.push(("tags", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))));
        }
        batch(columns)
    }

    fn labels(&self, row: usize) -> Vec<&'static str> {
        ["tall", "old", "left"]
            .into_iter()
            .enumerate()
            .filter(|(bit, _)| row >> bit & 1 == 1)
            .map(|(_, it)| it)
            .collect()
    }

    /// Returns properties of edges as they are stored, in the order of their groups.
    fn edge_rows(&self) -> RecordBatch {
        let notes =
            self.edges.iter().map(|(.., made)| made.map(|made| format!("n{made}"))).collect::<StringArray>();
        let times = self.edges.iter().enumerate().map(|(row, _)| Some(row as i64 * 1001 - 10_000_000));
        batch(vec![
            (
                "weight",
                cast(&self.edges.iter().map(|(.., made)| *made).collect::<Int64Array>(), &DataType::Int32)
                    .unwrap(),
            ),
            ("note", Arc::new(notes)),
            ("at", Arc::new(times.collect::<TimestampMillisecondArray>())),
        ])
    }

    fn edge_groups(&self) -> Vec<Vec<&'static str>> {
        if self.has_split_groups {
            vec![vec!["weight"], vec!["note", "at"]]
        } else {
            vec![vec!["weight", "note", "at"]]
        }
    }

    async fn write(&self, destination: stylobate_storage::Destination) -> Result<WrittenGraph> {
        let mut writer = GraphWriter::create(destination, "towns", self.options()).await?;
        let persons = self.persons_as_they_arrive();
        let vertices = VertexWrite::new("person", persons.schema())
            .with_key("id")
            .with_chunk_size(self.person_chunk)
            .with_labels_column("labels")
            .with_labels(["tall", "old", "left"]);
        let arrived = writer.vertices(vertices, arriving(cut(&persons, self.batch_rows))).await?;
        assert_eq!(arrived, self.persons as u64);

        let towns = batch(vec![("id", self.keys(0..self.towns))]);
        let vertices = VertexWrite::new("town", towns.schema()).with_key("id");
        writer.vertices(vertices, arriving(cut(&towns, self.batch_rows))).await?;
        let edges = self.edges_as_they_arrive();
        let mut write = EdgeWrite::new("person", "lives in", "town", edges.schema())
            .with_source("who")
            .with_destination("where")
            .with_adjacencies(self.orders.clone())
            .with_groups(self.edge_groups());

        if self.by_index {
            write = write.by_index();
        }
        let arrived = writer.edges(write, arriving(cut(&edges, self.batch_rows))).await?;
        assert_eq!(arrived, self.edges.len() as u64);
        writer.finish().await
    }

    /// Returns the same persons, with columns of other types.
    fn persons_as_they_arrive(&self) -> RecordBatch {
        let rows = self.person_rows();
        let labels: Vec<Vec<&str>> = (0..self.persons).map(|row| self.labels(row)).collect();
        let mut builder = ListBuilder::new(StringBuilder::new());
        labels.iter().for_each(|labels| builder.append_value(labels.iter().map(Some)));
        let name = cast(rows.column(1), &DataType::Utf8View).unwrap();
        let mut columns = vec![
            ("name", name),
            ("labels", Arc::new(builder.finish()) as ArrayRef),
            ("id", rows.column(0).clone()),
            ("is_left", rows.column(2).clone()),
        ];

        if let Some(tags) = rows.column_by_name("tags") {
            let large = DataType::LargeList(Arc::new(Field::new("x", DataType::Int16, true)));
            columns.push(("tags", cast(tags, &large).unwrap()));
        }
        batch(columns)
    }

    fn edges_as_they_arrive(&self) -> RecordBatch {
        let rows = self.edge_rows();
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let ends = |indexes: Vec<usize>| {
            if self.by_index {
                cast(&numbers(indexes.into_iter().map(|index| index as i64)), &DataType::UInt8).unwrap()
            } else {
                self.keys(indexes.into_iter())
            }
        };

        batch(vec![
            ("at", cast(rows.column(2), &DataType::Timestamp(TimeUnit::Microsecond, None)).unwrap()),
            ("where", ends(self.edges.iter().map(|edge| edge.1).collect())),
            ("note", cast(rows.column(1), &dictionary).unwrap()),
            ("weight", cast(rows.column(0), &DataType::Int8).unwrap()),
            ("who", ends(self.edges.iter().map(|edge| edge.0).collect())),
        ])
    }
}

/// Expected files of a graph.
struct Model {
    files: Files,
}

impl Model {
    fn of(case: &Case) -> Self {
        let mut model = Self { files: Files::new() };
        let persons = case.person_rows();
        let rest: Vec<&str> = ["name", "is_left", "tags"][..persons.num_columns() - 1].to_vec();
        for (group, columns) in [("id", vec!["id"]), (&rest.join("_"), rest)] {
            model.vertices(&format!("vertex/person/{group}"), &persons, &columns, case.person_chunk);
        }

        let labels = ["tall", "old", "left"].map(|label| {
            let has = (0..case.persons).map(|row| Some(case.labels(row).contains(&label)));
            (label, Arc::new(has.collect::<BooleanArray>()) as ArrayRef)
        });
        let labels = batch(labels.to_vec());
        for (chunk, rows) in cut(&labels, case.person_chunk as usize).into_iter().enumerate() {
            model.table(format!("vertex/person/labels/chunk{chunk}"), &rows);
        }

        model.count("vertex/person/vertex_count".to_owned(), case.persons);
        let towns = batch(vec![("id", case.keys(0..case.towns))]);
        model.vertices("vertex/town/id", &towns, &["id"], case.town_chunk);
        model.count("vertex/town/vertex_count".to_owned(), case.towns);
        for order in &case.orders {
            model.list(case, *order);
        }

        model
    }

    fn count(&mut self, path: String, count: usize) {
        self.files.insert(path, Content::Count(count as i64));
    }

    fn table(&mut self, path: String, rows: &RecordBatch) {
        let names = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        self.files.insert(path, Content::Table { names, rows: texts(rows) });
    }

    fn vertices(&mut self, folder: &str, rows: &RecordBatch, columns: &[&str], chunk_size: u64) {
        let index = numbers(0..rows.num_rows() as i64);
        let columns = columns.iter().map(|name| (*name, rows.column_by_name(name).unwrap().clone()));
        let rows = batch(std::iter::once(("_graphArVertexIndex", index)).chain(columns).collect());
        for (chunk, rows) in cut(&rows, chunk_size as usize).into_iter().enumerate() {
            self.table(format!("{folder}/chunk{chunk}"), &rows);
        }
    }

    fn list(&mut self, case: &Case, order: AdjacencyOrder) {
        let (vertices, part_size) = match order.aligned_by() {
            Side::Source => (case.persons, case.person_chunk as usize),
            Side::Dest => (case.towns, case.town_chunk as usize),
        };
        let folder = format!("edge/person_lives in_town/{order}");
        self.count(format!("{folder}/vertex_count"), vertices);
        let aligned = |edge: usize| match order.aligned_by() {
            Side::Source => (case.edges[edge].0, case.edges[edge].1),
            Side::Dest => (case.edges[edge].1, case.edges[edge].0),
        };

        for part in 0..vertices.div_ceil(part_size) {
            let mut edges: Vec<usize> =
                (0..case.edges.len()).filter(|edge| aligned(*edge).0 / part_size == part).collect();
            if order.is_ordered() {
                edges.sort_by_key(|edge| aligned(*edge));
                let of_part = part * part_size..vertices.min((part + 1) * part_size);
                let begin =
                    |vertex: usize| edges.iter().filter(|edge| aligned(**edge).0 < vertex).count() as i64;
                let offsets = numbers(of_part.clone().map(begin).chain([edges.len() as i64]));
                self.table(format!("{folder}/offset/chunk{part}"), &batch(vec![("_graphArOffset", offsets)]));
            }

            self.count(format!("{folder}/edge_count{part}"), edges.len());
            for (chunk, edges) in edges.chunks(case.edge_chunk as usize).enumerate() {
                let end = |end: fn(&(usize, usize, Option<i64>)) -> usize| {
                    numbers(edges.iter().map(|edge| end(&case.edges[*edge]) as i64))
                };
                let ends =
                    batch(vec![("_graphArSrcIndex", end(|it| it.0)), ("_graphArDstIndex", end(|it| it.1))]);
                self.table(format!("{folder}/adj_list/part{part}/chunk{chunk}"), &ends);
                let places: UInt32Array = edges.iter().map(|edge| Some(*edge as u32)).collect();

                let rows = take_record_batch(&case.edge_rows(), &places).unwrap();
                for group in case.edge_groups() {
                    let columns: Vec<usize> =
                        group.iter().map(|name| rows.schema().index_of(name).unwrap()).collect();
                    let path = format!("{folder}/{}/part{part}/chunk{chunk}", group.join("_"));
                    self.table(path, &rows.project(&columns).unwrap());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 8,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn files_hold_what_the_model_says(case in cases()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let place = tempfile::tempdir().unwrap();
            let written = case.write(folder(&place)).await.unwrap();
            let path = place.path().join("graph");
            let found = files(&path, case.file_type).await;
            let wanted = Model::of(&case).files;
            let differences: BTreeMap<&String, _> = wanted
                .keys()
                .chain(found.keys())
                .filter(|path| wanted.get(*path) != found.get(*path))
                .map(|path| (path, (wanted.get(path), found.get(path))))
                .collect();

            assert!(differences.is_empty(), "wanted and found: {differences:#?}");
            assert_eq!(info(&path, "towns"), written.info);
            assert_eq!((written.vertices, written.edges), ((case.persons + case.towns) as u64, case.edges.len() as u64));
            assert_eq!(written.files as usize, found.len() + 4);
        });
    }
}
