//! Ring 4: the real Claude Code CLI against a stub of the Messages API, in a network namespace that has only loopback.
//!
//! Run it with `tests/run`, which installs the pinned CLI and makes the namespace; anywhere else every test here fails and
//! says so, and no CLI is started.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start the programs under test and watch real deadlines"
)]

mod assumptions;
mod interop;
mod product;
mod stub;
mod support;
