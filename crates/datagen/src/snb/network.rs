//! The network: numbers of vertices and edges by type, and the endpoints of each edge.

use super::draw::{ColumnRandom, RandomColumn};
use crate::Scale;

/// A type of vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SnbVertexType {
    Person,
    Post,
    Comment,
}

/// Edges from vertices of one type to vertices of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SnbEdgeType {
    Knows,
    PostHasCreator,
    CommentHasCreator,
    LikesPost,
    LikesComment,
    ReplyOfPost,
    ReplyOfComment,
}

use SnbEdgeType::{
    CommentHasCreator, Knows, LikesComment, LikesPost, PostHasCreator, ReplyOfComment, ReplyOfPost,
};
use SnbVertexType::{Comment, Person, Post};

/// Scales a count given for scale 1.
fn scaled(count: u64, scale: Scale) -> u64 {
    (count as f64 * scale.factor()).round() as u64
}

impl SnbVertexType {
    pub(super) fn count(self, scale: Scale) -> u64 {
        match self {
            Person => scaled(10_000, scale),
            Post => scaled(100_000, scale),
            Comment => scaled(50_000, scale),
        }
    }

    /// Returns the first byte of the type's ids, distinct for each type.
    pub(super) fn prefix(self) -> u8 {
        match self {
            Person => b'P',
            Post => b'O',
            Comment => b'C',
        }
    }

    /// Returns the creation time of the vertex with this index, in seconds since 1970.
    pub(super) fn created(self, index: u64) -> i64 {
        let (first, step) = match self {
            Person => (1_500_000_000, 86_400),
            Post => (1_500_000_000, 30),
            Comment => (1_500_001_000, 17),
        };
        first + step * index as i64
    }
}

impl SnbEdgeType {
    pub(super) fn source(self) -> SnbVertexType {
        match self {
            Knows | LikesPost | LikesComment => Person,
            PostHasCreator => Post,
            CommentHasCreator | ReplyOfPost | ReplyOfComment => Comment,
        }
    }

    pub(super) fn destination(self) -> SnbVertexType {
        match self {
            Knows | PostHasCreator | CommentHasCreator => Person,
            LikesPost | ReplyOfPost => Post,
            LikesComment | ReplyOfComment => Comment,
        }
    }

    /// Returns the name of the date column, if the type has one.
    pub(super) fn date(self) -> Option<&'static str> {
        match self {
            Knows => Some("since"),
            LikesPost | LikesComment => Some("creationDate"),
            _ => None,
        }
    }

    pub(super) fn count(self, scale: Scale) -> u64 {
        let creators = scaled(150_000, scale);
        let likes = scaled(100_000, scale);
        let replies = scaled(30_000, scale);
        match self {
            Knows => scaled(100_000, scale),
            PostHasCreator => creators / 2,
            CommentHasCreator => creators - creators / 2,
            LikesPost => likes / 2,
            LikesComment => likes - likes / 2,
            ReplyOfPost => replies * 7 / 10,
            ReplyOfComment => replies - replies * 7 / 10,
        }
    }

    /// Returns the sampler of the type's edges.
    pub(super) fn edges(self, scale: Scale, seed: u64) -> SnbEdgeSampler {
        let number = self as u64;
        let sources = self.source().count(scale);
        let destinations = self.destination().count(scale);
        SnbEdgeSampler {
            sources: (ColumnRandom::new(seed, RandomColumn::Source(number)), sources),
            destinations: (ColumnRandom::new(seed, RandomColumn::Destination(number)), destinations),
            dates: ColumnRandom::new(seed, RandomColumn::Date(number)),
            dates_of: match self {
                Knows => (1_500_010_000, 10_000_000),
                _ => (1_500_020_000, 5_000_000),
            },
            is_within_a_type: self.source() == self.destination(),
        }
    }
}

/// Samples the edges of a type.
pub(super) struct SnbEdgeSampler {
    sources: (ColumnRandom, u64),
    destinations: (ColumnRandom, u64),
    dates: ColumnRandom,
    /// The first date, and the length of the range of dates in seconds.
    dates_of: (i64, u64),
    is_within_a_type: bool,
}

impl SnbEdgeSampler {
    /// Returns the vertex indices of the endpoints of an edge.
    pub(super) fn ends(&self, edge: u64) -> (u64, u64) {
        let sources = self.sources;
        let destinations = self.destinations;
        let source = sources.0.below(edge, sources.1);
        if !self.is_within_a_type {
            return (source, destinations.0.below(edge, destinations.1));
        }
        // A vertex other than the source.
        let destination = destinations.0.below(edge, destinations.1 - 1);
        (source, destination + u64::from(destination >= source))
    }

    /// Returns the date of an edge, in seconds since 1970.
    pub(super) fn date(&self, edge: u64) -> i64 {
        self.dates_of.0 + self.dates.below(edge, self.dates_of.1) as i64
    }
}
