//! A social network: its tables, and the chunks in which rows are made.
//!
//! People know people, create posts and comments and like them, and comments reply to posts and comments. The tables
//! have the names, columns and counts of the graph that benchmarks of graph stores use in place of the much larger one
//! of LDBC. At scale 1:
//!
//! | table | columns | rows |
//! |---|---|---|
//! | `persons` | `id, firstName, lastName, age, creationDate` | 10,000 |
//! | `posts` | `id, content, creationDate, length` | 100,000 |
//! | `comments` | `id, content, creationDate, length` | 50,000 |
//! | `knows` | `src, dst, since`: of persons | 100,000 |
//! | `has_creator` | `src, dst`: half are of posts, half of comments, all to persons | 150,000 |
//! | `likes` | `src, dst, creationDate`: of persons, half to posts, half to comments | 100,000 |
//! | `reply_of` | `src, dst`: of comments, 7 of 10 to posts, the others to comments | 30,000 |
//!
//! An id is 32 hexadecimal digits: 50 for a person, 4f for a post, 43 for a comment, and the index in 30 digits. Dates
//! are seconds since 1970, and all numbers have 64 bits. Ends of edges are drawn evenly, so that some pairs have
//! several edges; no edge ends where it begins.
//!
//! For one table per pair of vertex types there are `post_has_creator`, `comment_has_creator`, `likes_post`,
//! `likes_comment`, `reply_of_post` and `reply_of_comment`: each has the rows of the table with both types, in the
//! same order.
//!
//! A value depends on the seed, its column and its row alone.

mod draw;
mod names;
mod network;
mod rows;

use std::ops::Range;

use arrow::datatypes::SchemaRef;

use self::network::{SnbEdgeType, SnbVertexType};
pub(crate) use self::rows::AGES;
use crate::{
    Part, Scale,
    chunk::{BATCH_ROWS, GeneratedBatches, TableChunk},
};

/// Rows of a chunk.
const CHUNK_ROWS: u64 = 16_384;
/// Default seed.
pub(crate) const SEED: u64 = 42;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnbTable {
    Persons,
    Posts,
    Comments,
    Knows,
    HasCreator,
    Likes,
    ReplyOf,
    PostHasCreator,
    CommentHasCreator,
    LikesPost,
    LikesComment,
    ReplyOfPost,
    ReplyOfComment,
}

use SnbTable::{
    CommentHasCreator, Comments, HasCreator, Knows, Likes, LikesComment, LikesPost, Persons, PostHasCreator,
    Posts, ReplyOf, ReplyOfComment, ReplyOfPost,
};

/// Tables that are made by default.
pub(crate) const TABLES: [SnbTable; 7] = [Persons, Posts, Comments, Knows, HasCreator, Likes, ReplyOf];
/// The rows of some of them, by the types of their ends.
pub(crate) const TYPED: [SnbTable; 6] =
    [PostHasCreator, CommentHasCreator, LikesPost, LikesComment, ReplyOfPost, ReplyOfComment];

/// Contents of a table.
enum SnbTableContent {
    Vertices(SnbVertexType),
    /// The edges of these types, one after another.
    Edges(&'static [SnbEdgeType]),
}

impl SnbTable {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Persons => "persons",
            Posts => "posts",
            Comments => "comments",
            Knows => "knows",
            HasCreator => "has_creator",
            Likes => "likes",
            ReplyOf => "reply_of",
            PostHasCreator => "post_has_creator",
            CommentHasCreator => "comment_has_creator",
            LikesPost => "likes_post",
            LikesComment => "likes_comment",
            ReplyOfPost => "reply_of_post",
            ReplyOfComment => "reply_of_comment",
        }
    }

    fn content(self) -> SnbTableContent {
        SnbTableContent::Edges(match self {
            Persons => return SnbTableContent::Vertices(SnbVertexType::Person),
            Posts => return SnbTableContent::Vertices(SnbVertexType::Post),
            Comments => return SnbTableContent::Vertices(SnbVertexType::Comment),
            Knows => &[SnbEdgeType::Knows],
            HasCreator => &[SnbEdgeType::PostHasCreator, SnbEdgeType::CommentHasCreator],
            Likes => &[SnbEdgeType::LikesPost, SnbEdgeType::LikesComment],
            ReplyOf => &[SnbEdgeType::ReplyOfPost, SnbEdgeType::ReplyOfComment],
            PostHasCreator => &[SnbEdgeType::PostHasCreator],
            CommentHasCreator => &[SnbEdgeType::CommentHasCreator],
            LikesPost => &[SnbEdgeType::LikesPost],
            LikesComment => &[SnbEdgeType::LikesComment],
            ReplyOfPost => &[SnbEdgeType::ReplyOfPost],
            ReplyOfComment => &[SnbEdgeType::ReplyOfComment],
        })
    }

    /// Returns the described schema; strings may be dictionaries in the rows.
    pub(crate) fn schema(self) -> SchemaRef {
        match self.content() {
            SnbTableContent::Vertices(vertex) => rows::vertex_schema(vertex),
            SnbTableContent::Edges(types) => rows::edge_schema(types),
        }
    }

    fn count(self, scale: Scale) -> u64 {
        match self.content() {
            SnbTableContent::Vertices(vertex) => vertex.count(scale),
            SnbTableContent::Edges(types) => types.iter().map(|edges| edges.count(scale)).sum(),
        }
    }

    /// Returns the rows of a part.
    pub(crate) fn rows(self, scale: Scale, part: Part) -> u64 {
        let range = self.rows_of(scale, part);
        range.end - range.start
    }

    fn rows_of(self, scale: Scale, part: Part) -> Range<u64> {
        let count = self.count(scale);
        let number = u64::from(part.number());
        let of = u64::from(part.of());
        count * (number - 1) / of..count * number / of
    }

    /// Returns the chunks of a part, in order.
    pub(crate) fn chunks(self, scale: Scale, part: Part) -> Vec<TableChunk> {
        let rows = self.rows_of(scale, part);
        let chunk =
            |from: u64| TableChunk::Sources { first: from + 1, last: (from + CHUNK_ROWS).min(rows.end) };
        rows.clone().step_by(CHUNK_ROWS as usize).map(chunk).collect()
    }

    /// Returns the rows from `first` to `last`, counted from 1.
    pub(crate) fn batches(self, scale: Scale, seed: u64, first: u64, last: u64) -> GeneratedBatches {
        Box::new((first - 1..last).step_by(BATCH_ROWS).map(move |from| {
            let rows = from..(from + BATCH_ROWS as u64).min(last);
            match self.content() {
                SnbTableContent::Vertices(vertex) => rows::vertices(vertex, seed, rows),
                SnbTableContent::Edges(types) => rows::edges(types, scale, seed, rows),
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_chunks_follow_on_each_other() {
        let scale = Scale::new(0.5).unwrap();
        for (table, rows) in [(Persons, 5_000), (HasCreator, 75_000), (ReplyOfPost, 10_500)] {
            let mut next = 1;
            for number in 1..=3 {
                for chunk in table.chunks(scale, Part::new(number, 3).unwrap()) {
                    let TableChunk::Sources { first, last } = chunk else { panic!("{chunk:?}") };
                    assert!(first == next && last >= first && last - first < CHUNK_ROWS);
                    next = last + 1;
                }
            }
            assert_eq!(next - 1, rows, "{table:?}");
        }
    }
}
