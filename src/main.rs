//! The `autopilot` binary.

fn main() -> std::process::ExitCode {
    autopilot::cli::main()
}
