//! The hops of a query, in the order of the command line.

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use stylobate_graph::{Direction, store::Traversal};

/// The hops of a traversal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HopArgs(Vec<HopArg>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct HopArg {
    direction: Direction,
    edge: String,
    to: Option<String>,
    columns: Vec<String>,
    name: Option<String>,
}

impl HopArgs {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the hops to the traversal.
    pub(super) fn follow(&self, mut traversal: Traversal) -> Traversal {
        for hop in &self.0 {
            traversal = match hop.direction {
                Direction::Out => traversal.out(&hop.edge, hop.to.as_deref()),
                Direction::In => traversal.in_(&hop.edge, hop.to.as_deref()),
            };
            traversal = traversal.columns(&hop.columns);
            if let Some(name) = &hop.name {
                traversal = traversal.named(name);
            }
        }

        traversal
    }
}

impl Args for HopArgs {
    fn augment_args(command: Command) -> Command {
        let option = |name: &'static str, value: &'static str, help: &'static str| {
            Arg::new(name).long(name).value_name(value).action(ArgAction::Append).help(help)
        };
        command
            .arg(option(
                "out",
                "EDGE[:TYPE]",
                "Follow outgoing edges, to vertices of this type; may be repeated",
            ))
            .arg(option(
                "in",
                "EDGE[:TYPE]",
                "Follow incoming edges, from vertices of this type; may be repeated",
            ))
            .arg(option(
                "columns",
                "NAMES",
                "Edge properties of the preceding hop to read; may follow each hop",
            ))
            .arg(option("as", "NAME", "Name for the vertices of the preceding hop; may follow each hop"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Returns the values of an option with their positions on the command line.
fn placed(matches: &ArgMatches, option: &str) -> Vec<(usize, String)> {
    let values = matches.get_many::<String>(option).into_iter().flatten().cloned();
    matches.indices_of(option).into_iter().flatten().zip(values).collect()
}

impl FromArgMatches for HopArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words: Vec<(usize, &str, String)> = Vec::new();
        for option in ["out", "in", "columns", "as"] {
            words.extend(placed(matches, option).into_iter().map(|(at, value)| (at, option, value)));
        }

        words.sort();

        let mut hops: Vec<HopArg> = Vec::new();
        for (_, option, value) in words {
            let hop = |direction: Direction| {
                let (edge, to) = match value.split_once(':') {
                    Some((edge, to)) => (edge.to_owned(), Some(to.to_owned())),
                    None => (value.clone(), None),
                };
                HopArg { direction, edge, to, columns: Vec::new(), name: None }
            };

            match (option, hops.last_mut()) {
                ("out", _) => hops.push(hop(Direction::Out)),
                ("in", _) => hops.push(hop(Direction::In)),
                ("columns", Some(last)) => {
                    last.columns.extend(value.split(',').map(|name| name.trim().to_owned()));
                }
                ("as", Some(last)) => last.name = Some(value),
                (option, _) => {
                    let message =
                        format!("--{option} {value}: it belongs to a hop: write it behind --out or --in\n");
                    return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, message));
                }
            }
        }

        Ok(Self(hops))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<HopArgs, clap::Error> {
        let command = HopArgs::augment_args(Command::new("query").no_binary_name(true));
        HopArgs::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn hops_are_in_the_order_in_which_they_were_typed() {
        let hops = parsed(&[
            "--in",
            "HAS_CREATOR:Post",
            "--as",
            "post",
            "--in",
            "LIKES",
            "--columns",
            "a,b",
            "--out",
            "KNOWS",
        ]);

        let HopArgs(hops) = hops.unwrap();
        let ways: Vec<_> = hops.iter().map(|hop| (hop.direction, hop.edge.as_str())).collect();
        let wanted = [(Direction::In, "HAS_CREATOR"), (Direction::In, "LIKES"), (Direction::Out, "KNOWS")];
        assert_eq!(ways, wanted);
        assert_eq!((hops[0].to.as_deref(), hops[0].name.as_deref()), (Some("Post"), Some("post")));
        assert_eq!(hops[1].columns, ["a", "b"]);
        assert!(parsed(&[]).unwrap().is_empty());
    }

    #[test]
    fn columns_without_a_hop_are_refused() {
        assert!(
            parsed(&["--columns", "a", "--out", "KNOWS"]).unwrap_err().to_string().contains("--columns a")
        );
    }
}
