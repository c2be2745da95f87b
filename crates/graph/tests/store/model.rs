//! Plain graph in memory, compared with a version of a store.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
    datatypes::{Int64Type, UInt32Type},
};
use stylobate_graph::{
    Direction, Error, PropertyType,
    store::{EdgeType, Snapshot, StoreSchema, VertexType},
};

/// Returns a schema of persons who know one another and like posts.
pub fn schema() -> StoreSchema {
    StoreSchema::new()
        .with_vertices(
            VertexType::new("Person", "id", PropertyType::Int64)
                .with_property("name", PropertyType::String)
                .with_property("age", PropertyType::Int64),
        )
        .with_vertices(VertexType::new("Post", "url", PropertyType::String))
        .with_edges(EdgeType::new("Person", "KNOWS", "Person").with_property("weight", PropertyType::Int64))
        .with_edges(EdgeType::new("Person", "LIKES", "Post"))
}

/// Number of keys, so small that deleted keys are used again.
pub const KEYS: i64 = 24;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Person {
    pub index: i64,
    pub name: Option<String>,
    pub age: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub persons: BTreeMap<i64, Person>,
    pub posts: BTreeMap<String, i64>,
    pub next_person: i64,
    pub next_post: i64,
    pub knows: Vec<(i64, i64, Option<i64>)>,
    pub likes: Vec<(i64, i64)>,
}

pub fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

pub fn texts<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

impl Model {
    pub fn delete_person(&mut self, key: i64) {
        let Some(person) = self.persons.remove(&key) else { return };
        self.knows.retain(|(from, to, _)| *from != person.index && *to != person.index);
        self.likes.retain(|(from, _)| *from != person.index);
    }

    pub fn delete_post(&mut self, url: &str) {
        let Some(index) = self.posts.remove(url) else { return };
        self.likes.retain(|(_, to)| *to != index);
    }

    fn edges(&self, edge: &str) -> Vec<(i64, i64, Option<i64>)> {
        match edge {
            "KNOWS" => self.knows.clone(),
            _ => self.likes.iter().map(|(from, to)| (*from, *to, None)).collect(),
        }
    }

    /// Checks that a version has the same content by every way of reading.
    pub async fn check(&self, snapshot: &Snapshot) {
        let version = snapshot.version();
        assert_eq!(snapshot.vertex_count("Person").unwrap(), self.persons.len() as u64, "version {version}");
        assert_eq!(snapshot.vertex_count("Post").unwrap(), self.posts.len() as u64, "version {version}");
        assert_eq!(snapshot.index_count("Person").unwrap(), self.next_person as u64);
        self.check_persons(snapshot).await;
        let posts = snapshot.vertices("Post", None).await.unwrap();
        let found = posts
            .indexes_of(&texts(self.posts.keys().map(String::as_str).chain(["nobody's"])))
            .await
            .unwrap();

        let expected: Vec<Option<i64>> =
            self.posts.values().map(|index| Some(*index)).chain([None]).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        self.check_edges(snapshot, "KNOWS", self.next_person, self.next_person).await;
        self.check_edges(snapshot, "LIKES", self.next_person, self.next_post).await;
    }

    async fn check_persons(&self, snapshot: &Snapshot) {
        let view = snapshot.vertices("Person", Some(&["age", "name", "id"])).await.unwrap();
        let found = view.indexes_of(&ints(-1..=KEYS)).await.unwrap();
        let expected: Vec<Option<i64>> =
            (-1..=KEYS).map(|key| self.persons.get(&key).map(|person| person.index)).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "version {}", snapshot.version());
        // Backwards and twice.
        let wanted: Vec<(&i64, &Person)> = self.persons.iter().rev().chain(self.persons.iter()).collect();
        let indexes: Vec<i64> = wanted.iter().map(|(_, person)| person.index).collect();
        let taken = view.take(&indexes).await.unwrap();
        assert_eq!(taken.column(0).as_primitive::<Int64Type>().values(), indexes.as_slice());

        let ages = taken.column(1).as_primitive::<Int64Type>().iter();
        let names = taken.column(2).as_string::<i32>().iter();
        let keys = taken.column(3).as_primitive::<Int64Type>().iter();
        for (((age, name), key), (wanted_key, person)) in ages.zip(names).zip(keys).zip(wanted) {
            assert_eq!((key, age, name), (Some(*wanted_key), person.age, person.name.as_deref()));
        }

        for index in 0..self.next_person {
            if !self.persons.values().any(|person| person.index == index) {
                let error = view.take(&[index]).await.unwrap_err();
                assert!(matches!(error, Error::NoSuchVertex { .. }), "{error}");
            }
        }

        let outside = view.take(&[self.next_person]).await.unwrap_err();
        assert!(matches!(outside, Error::OutOfRange { .. }), "{outside}");
    }

    async fn check_edges(&self, snapshot: &Snapshot, edge: &str, sources: i64, destinations: i64) {
        let version = snapshot.version();
        let all = self.edges(edge);
        assert_eq!(snapshot.edge_count(edge).unwrap(), all.len() as u64, "{edge} in version {version}");

        let view = snapshot.edges(edge, None).await.unwrap();
        let has_weight = edge == "KNOWS";
        for direction in [Direction::Out, Direction::In] {
            let count = if direction == Direction::Out { sources } else { destinations };
            let vertices: Vec<i64> = (0..count).collect();
            let expected = |vertex: i64| {
                let mut expected: Vec<(i64, Option<i64>)> = all
                    .iter()
                    .map(|(from, to, weight)| match direction {
                        Direction::Out => (*from, *to, *weight),
                        Direction::In => (*to, *from, *weight),
                    })
                    .filter(|(own, ..)| *own == vertex)
                    .map(|(_, other, weight)| (other, weight))
                    .collect();

                expected.sort_unstable();
                expected
            };

            let expanded = view.expand(direction, &vertices).await.unwrap();
            let positions = expanded.column(0).as_primitive::<UInt32Type>().values();
            assert!(positions.is_sorted());
            let neighbors = expanded.column(1).as_primitive::<Int64Type>().values();
            let weight = |row: usize| {
                has_weight
                    .then(|| expanded.column(2).as_primitive::<Int64Type>().iter().nth(row).unwrap())
                    .flatten()
            };

            let mut found: Vec<Vec<(i64, Option<i64>)>> = vec![Vec::new(); vertices.len()];
            for (row, position) in positions.iter().enumerate() {
                found[*position as usize].push((neighbors[row], weight(row)));
            }

            let degrees = view.degrees(direction, &vertices).await.unwrap();
            for vertex in &vertices {
                let mut of_vertex = found[*vertex as usize].clone();
                let one = view.of(direction, *vertex).await.unwrap();
                let in_order: Vec<i64> = of_vertex.iter().map(|(neighbor, _)| *neighbor).collect();
                assert_eq!(one.neighbors.values(), in_order.as_slice());
                of_vertex.sort_unstable();
                assert_eq!(
                    of_vertex,
                    expected(*vertex),
                    "{edge} {direction:?} of {vertex} in version {version}"
                );
                assert_eq!(degrees.value(*vertex as usize), of_vertex.len() as i64);
            }

            let outside = view.of(direction, count).await.unwrap_err();
            assert!(matches!(outside, Error::OutOfRange { .. }), "{outside}");
        }

        for source in 0..sources {
            for destination in (0..destinations).step_by(3) {
                let found = view.lookup(source, destination).await.unwrap();
                let expected =
                    all.iter().filter(|(from, to, _)| (*from, *to) == (source, destination)).count();
                assert_eq!(found.neighbors.len(), expected, "{edge} from {source} to {destination}");
                assert!(found.neighbors.values().iter().all(|neighbor| *neighbor == destination));
            }
        }
    }
}
