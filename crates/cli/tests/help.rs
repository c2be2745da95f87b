//! The help of every command, word for word, as displayed in a terminal of 100 columns.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::process::Command;

/// Returns the output of `stylobate COMMAND --help`.
fn help(command: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_stylobate"))
        .args(command)
        .arg("--help")
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();

    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the names of the subcommands listed in a help text.
fn sub_commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("    "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_help_of_every_command_is_as_reviewed() {
    let mut waiting = vec![Vec::new()];
    while let Some(command) = waiting.pop() {
        let text = help(&command);
        for name in sub_commands(&text) {
            waiting.push([command.clone(), vec![name]].concat());
        }

        let name = if command.is_empty() { "stylobate".to_owned() } else { command.join("_") };
        insta::assert_snapshot!(name, text);
    }
}
