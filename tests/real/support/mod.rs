//! What the tests of ring 4 share.

mod child;
mod namespace;
mod night;
mod process;
mod product;
mod turn;
mod wait;

pub(crate) use night::Night;
pub(crate) use turn::Turn;
pub(crate) use wait::STEP;
