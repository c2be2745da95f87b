//! Random histories: after any additions, changes, deletions, commits, rollbacks and reopens, a store equals a plain
//! graph, and old versions are unchanged.

use arrow::array::{ArrayRef, Int64Array, StringArray};
use object_store::memory::InMemory;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::sync::Arc;
use stylobate_graph::{
    Result,
    store::{Ends, Snapshot, StoreOptions, StoreWriter, VertexIds},
};
use stylobate_storage::ByteSize;

use crate::{
    bucket::Bucket,
    model::{KEYS, Model, Person, batch, ints, schema, texts},
};

/// Applies a random change to a writer and to the graph.
pub async fn change(writer: &mut StoreWriter, model: &mut Model, random: &mut StdRng) -> Result<()> {
    match random.random_range(0..12) {
        0..3 => add_persons(writer, model, random).await,
        3 => add_posts(writer, model, random).await,
        4..7 => add_knows(writer, model, random).await,
        7 => add_likes(writer, model, random).await,
        8 => update(writer, model, random).await,
        9 => delete_vertices(writer, model, random).await,
        _ => delete_edges(writer, model, random).await,
    }
}

async fn add_persons(writer: &mut StoreWriter, model: &mut Model, random: &mut StdRng) -> Result<()> {
    let mut free: Vec<i64> = (0..KEYS).filter(|key| !model.persons.contains_key(key)).collect();
    free.truncate(random.random_range(0..5));
    let ages: Vec<Option<i64>> =
        free.iter().map(|_| random.random_bool(0.7).then(|| random.random_range(0..99))).collect();
    let rows =
        batch([("age", Arc::new(Int64Array::from(ages.clone())) as ArrayRef), ("id", ints(free.clone()))]);
    let given = writer.add_vertices("Person", &rows).await?;
    assert_eq!(given.start as i64, model.next_person);

    for (key, age) in free.into_iter().zip(ages) {
        model.persons.insert(key, Person { index: model.next_person, name: None, age });
        model.next_person += 1;
    }
    Ok(())
}

async fn add_posts(writer: &mut StoreWriter, model: &mut Model, random: &mut StdRng) -> Result<()> {
    let url = format!("/post/{}", random.random_range(0..6));
    let rows = batch([("url", texts([&url]))]);
    if model.posts.contains_key(&url) {
        writer.add_vertices("Post", &rows).await.unwrap_err();
        return Ok(());
    }
    writer.add_vertices("Post", &rows).await?;
    model.posts.insert(url, model.next_post);
    model.next_post += 1;
    Ok(())
}

fn some_person<'a>(model: &'a Model, random: &mut StdRng) -> Option<(&'a i64, &'a Person)> {
    let at = random.random_range(0..model.persons.len().max(1));
    model.persons.iter().nth(at)
}

async fn add_knows(writer: &mut StoreWriter, model: &mut Model, random: &mut StdRng) -> Result<()> {
    let mut by_key = Vec::new();
    let mut by_index = Vec::new();
    let mut weights = Vec::new();
    for _ in 0..random.random_range(1..8) {
        let (Some((from, source)), Some((to, destination))) =
            (some_person(model, random), some_person(model, random))
        else {
            return Ok(());
        };
        by_key.push((*from, *to));
        by_index.push((source.index, destination.index));
        weights.push(random.random_bool(0.8).then(|| random.random_range(0..1_000)));
    }

    let use_keys = random.random_bool(0.5);
    let (ends, pairs) = if use_keys { (Ends::Keys, &by_key) } else { (Ends::Indexes, &by_index) };
    let rows = batch([
        ("src", ints(pairs.iter().map(|pair| pair.0))),
        ("weight", Arc::new(Int64Array::from(weights.clone()))),
        ("dst", ints(pairs.iter().map(|pair| pair.1))),
    ]);
    writer.add_edges("KNOWS", &rows, ends).await?;

    let edges = by_index.into_iter().zip(weights).map(|((from, to), weight)| (from, to, weight));
    model.knows.extend(edges);
    Ok(())
}

async fn add_likes(writer: &mut StoreWriter, model: &mut Model, random: &mut StdRng) -> Result<()> {
    let at = random.random_range(0..model.posts.len().max(1));
    let (Some((key, person)), Some((url, post))) = (some_person(model, random), model.posts.iter().nth(at))
    else {
        return Ok(());
    };
    let rows = batch([("src", ints([*key])), ("dst", texts([url]))]);
    writer.add_edges("LIKES", &rows, Ends::Keys).await?;
    let edge = (person.index, *post);
    model.likes.push(edge);
    Ok(())
}

async fn update(writer: &mut StoreWriter, model: &mut Model, random: &mut StdRng) -> Result<()> {
    let Some((key, person)) = some_person(model, random).map(|(key, person)| (*key, person.clone())) else {
        return Ok(());
    };
    let Some(changed) = model.persons.get_mut(&key) else { return Ok(()) };
    if random.random_bool(0.5) {
        let name = random.random_bool(0.8).then(|| format!("name {}", random.random_range(0..100)));
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("overwritten".to_owned()), name.clone()]));
        writer.update_vertices("Person", &batch([("id", ints([key, key])), ("name", names)])).await?;
        changed.name = name;
    } else {
        let age = random.random_range(0..99);
        let rows = batch([("_index", ints([person.index])), ("age", ints([age]))]);
        writer.update_vertices("Person", &rows).await?;
        changed.age = Some(age);
    }

    Ok(())
}

async fn delete_vertices(writer: &mut StoreWriter, model: &mut Model, random: &mut StdRng) -> Result<()> {
    if random.random_bool(0.3) {
        let Some(url) = model.posts.keys().next().cloned() else { return Ok(()) };
        writer.delete_vertices("Post", &VertexIds::Keys(texts([&url]))).await?;
        model.delete_post(&url);
        return Ok(());
    }

    let Some((key, index)) = some_person(model, random).map(|(key, person)| (*key, person.index)) else {
        return Ok(());
    };
    let ids =
        if random.random_bool(0.5) { VertexIds::Keys(ints([key])) } else { VertexIds::Indexes(vec![index]) };
    writer.delete_vertices("Person", &ids).await?;
    writer.delete_vertices("Person", &ids).await.unwrap_err();
    model.delete_person(key);

    Ok(())
}

async fn delete_edges(writer: &mut StoreWriter, model: &mut Model, random: &mut StdRng) -> Result<()> {
    let (from, to) = match model.knows.get(random.random_range(0..model.knows.len().max(1))) {
        Some((from, to, _)) => (*from, *to),
        // Between vertices without edges.
        None => match some_person(model, random) {
            Some((_, person)) => (person.index, person.index),
            None => return Ok(()),
        },
    };

    let rows = batch([("src", ints([from])), ("dst", ints([to]))]);
    writer.delete_edges("KNOWS", &rows, Ends::Indexes).await?;
    model.knows.retain(|(source, destination, _)| (*source, *destination) != (from, to));
    Ok(())
}

async fn history(seed: u64, steps: u32, options: StoreOptions) {
    let mut random = StdRng::seed_from_u64(seed);
    let memory = Arc::new(InMemory::new());
    let mut store = Bucket::over(memory.clone()).create(schema(), options.clone()).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut committed = Model::default();
    let mut model = Model::default();
    let mut held: Vec<(Snapshot, Model)> = Vec::new();
    for _ in 0..steps {
        match random.random_range(0..20) {
            0..5 => {
                let version = writer.commit().await.unwrap();
                committed = model.clone();
                let snapshot = store.latest();
                assert_eq!(snapshot.version(), version);
                committed.check(&snapshot).await;
                if random.random_bool(0.3) {
                    held.push((snapshot, committed.clone()));
                }
            }
            5 => {
                writer.rollback();
                model = committed.clone();
            }
            6 => {
                // Reopened, with nothing in memory.
                store = Bucket::over(memory.clone()).open(options.clone()).await.unwrap();
                committed.check(&store.latest()).await;
                writer = store.writer().await.unwrap();
                model = committed.clone();
                committed.check(&store.latest()).await;
            }
            _ => change(&mut writer, &mut model, &mut random).await.unwrap(),
        }
    }

    writer.commit().await.unwrap();
    model.check(&store.latest()).await;
    for (snapshot, model) in held {
        model.check(&snapshot).await;
        let again = store.snapshot(Some(snapshot.version())).await.unwrap();
        model.check(&again).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_agree_with_a_plain_graph() {
    for seed in 0..6 {
        history(seed, 120, StoreOptions::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_whose_batches_become_files_agree_with_a_plain_graph() {
    for seed in 100..104 {
        history(seed, 60, StoreOptions::default().with_inline_limit(ByteSize::bytes(1_500))).await;
    }
    history(200, 60, StoreOptions::default().with_inline_limit(ByteSize::ZERO)).await;
}
