//! What the product assumes of the CLI, each checked on the CLI itself, without the product: when one of these fails, a new
//! version of the CLI behaves in another way, and the product's own failures follow from that.

mod background;
mod failures;
mod gate;
mod identity;
mod report;
mod signals;
mod stream;
