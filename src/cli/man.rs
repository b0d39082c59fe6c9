//! `autopilot man`.

use std::io;

use clap::CommandFactory as _;

use super::args::Cli;

/// The manual page, as troff.
///
/// # Errors
///
/// None in practice: it is written to memory.
pub fn page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_sections_and_the_exit_codes() {
        let page = String::from_utf8(page().unwrap()).unwrap();
        for word in
            [".TH autopilot", ".SH SYNOPSIS", ".SH OPTIONS", "max\\-sessions", "usage limit lasts longer"]
        {
            assert!(page.contains(word), "{word}");
        }
    }
}
