//! What the tests of ring 4 share.

mod child;
mod namespace;
mod night;
mod plugin;
mod process;
mod product;
mod turn;
mod wait;

pub(crate) use child::Program;
pub(crate) use namespace::CLI_VERSION;
pub(crate) use night::Night;
pub(crate) use plugin::Plugin;
pub(crate) use product::Ended;
pub(crate) use turn::Turn;
pub(crate) use wait::STEP;
