//! `autopilot completions SHELL`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::args::Cli;

/// The completion script for a shell.
#[must_use]
pub fn script(shell: Shell) -> Vec<u8> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    // Into memory first: clap_complete panics on a failed write, and a closed pipe is one.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_knows_the_commands_and_options() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for word in ["autopilot", "doctor", "max-sessions"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
