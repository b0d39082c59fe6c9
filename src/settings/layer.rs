//! One source of settings: values as they were given, each with its origin.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::SettingsError;
use super::key::Setting;
use super::keys;
use super::value::Raw;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// An option of the command line, by its name without `--`.
    Flag(&'static str),
    /// An environment variable.
    Env(&'static str),
    /// A configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// Line of the key, from 1.
        line: usize,
    },
    /// `## Session Config` of CLAUDE.md or AGENTS.md (upstream-formats §5.10): below all others.
    SessionConfig {
        /// The file.
        path: PathBuf,
    },
    /// Built in.
    Default,
}

impl Origin {
    /// The kind of source, for machines.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Origin::Flag(_) => "flag",
            Origin::Env(_) => "env",
            Origin::File { .. } => "file",
            Origin::SessionConfig { .. } => "session-config",
            Origin::Default => "default",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => write!(f, "--{name}"),
            Origin::Env(name) => f.write_str(name),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::SessionConfig { path } => write!(f, "Session Config of {}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A configuration file that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Its path, as it is to be shown.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl ConfigFile {
    /// Reads a configuration file. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// It is there and cannot be read, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Option<ConfigFile>, SettingsError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(ConfigFile { path: path.to_owned(), text })),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(source) => Err(SettingsError::Read { path: path.to_owned(), source }),
        }
    }
}

/// The values one source gave. A setting it does not mention is not in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layer {
    values: BTreeMap<&'static str, (Raw, Origin)>,
}

impl Layer {
    /// A source that says nothing.
    #[must_use]
    pub fn new() -> Self {
        Layer::default()
    }

    /// The value it gives for a setting.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(&Raw, &Origin)> {
        self.values.get(name).map(|(raw, origin)| (raw, origin))
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The names of the settings it gives a value for.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.values.keys().copied()
    }

    /// Adds a value of the command line, if there is one.
    pub fn flag(&mut self, setting: &dyn Setting, value: Option<Raw>) {
        if let Some(raw) = value {
            let name = setting.spec().name;
            self.values.insert(name, (raw, Origin::Flag(name)));
        }
    }

    /// Forgets what it gives for a setting.
    pub fn forget(&mut self, name: &str) {
        self.values.remove(name);
    }

    /// Takes over what `other` gives, in place of what is there.
    pub fn overlay(&mut self, other: Layer) {
        self.values.extend(other.values);
    }

    /// The variables of the settings. An empty one counts as not set.
    pub fn from_env(env: &impl Fn(&str) -> Option<OsString>) -> Layer {
        let mut layer = Layer::new();
        for setting in keys::ALL {
            let spec = setting.spec();
            if let Some(text) = env(spec.env).filter(|text| !text.is_empty()) {
                layer.values.insert(spec.name, (Raw::Variable(text), Origin::Env(spec.env)));
            }
        }
        layer
    }

    /// The keys of a configuration file.
    ///
    /// # Errors
    ///
    /// It is not TOML, or has a key that is not a setting.
    pub fn from_file(file: &ConfigFile) -> Result<Layer, SettingsError> {
        // Some editors put a byte order mark in front; it is not part of the text.
        let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
        let table = DeTable::parse(text).map_err(|error| {
            let (line, column) = position(text, error.span().map_or(0, |span| span.start));
            SettingsError::Syntax {
                path: file.path.clone(),
                line,
                column,
                message: error.message().replace('\n', ", "),
            }
        })?;
        let mut layer = Layer::new();
        for (key, value) in table.get_ref() {
            let (line, _) = position(text, key.span().start);
            let name = key.get_ref();
            let Some(setting) = keys::find(name) else {
                return Err(SettingsError::UnknownKey {
                    path: file.path.clone(),
                    line,
                    key: name.to_string(),
                    suggestion: keys::suggest(name),
                });
            };
            let origin = Origin::File { path: file.path.clone(), line };
            layer.values.insert(setting.spec().name, (raw(value), origin));
        }
        Ok(layer)
    }
}

/// A value of TOML.
fn raw(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(integer) => {
            let digits = integer.as_str().replace('_', "");
            #[expect(clippy::cast_precision_loss, reason = "every bound is far below 2^53")]
            let number = i64::from_str_radix(&digits, integer.radix()).map(|number| number as f64);
            number.map_or(Raw::Other("a number that is too large"), Raw::Number)
        }
        DeValue::Float(float) => match float.as_str().replace('_', "").parse::<f64>() {
            Ok(number) if number.is_finite() => Raw::Number(number),
            _ => Raw::Other("a number that is not finite"),
        },
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
            texts.map_or(Raw::Other("an array that is not all strings"), Raw::List)
        }
        DeValue::Table(_) => Raw::Other("a table"),
    }
}

/// Line and column of a byte offset, both from 1, the column in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Layer, SettingsError> {
        Layer::from_file(&ConfigFile { path: PathBuf::from("c.toml"), text: text.to_owned() })
    }

    #[test]
    fn values_and_lines() {
        let layer = parse(
            "# night\n\nmax-sessions = 1_0\r\nmax-hours = 2.5\nmodel = 'opus'\nclaude-arg = ['a', \"b\"]\n",
        )
        .unwrap();
        let check = |name: &str, raw: Raw, line| {
            let origin = Origin::File { path: PathBuf::from("c.toml"), line };
            assert_eq!(layer.get(name), Some((&raw, &origin)), "{name}");
        };
        check("max-sessions", Raw::Number(10.0), 3);
        check("max-hours", Raw::Number(2.5), 4);
        check("model", Raw::Text("opus".to_owned()), 5);
        check("claude-arg", Raw::List(vec!["a".to_owned(), "b".to_owned()]), 6);
        assert_eq!(layer.names().count(), 4);
    }

    #[test]
    fn odd_but_fine() {
        for text in ["", "\n", "# only a comment", "\u{feff}max-hours = 1"] {
            assert!(parse(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn numbers_that_are_none() {
        for (value, found) in [
            ("nan", "a number that is not finite"),
            ("inf", "a number that is not finite"),
            ("-inf", "a number that is not finite"),
            ("99999999999999999999", "a number that is too large"),
            ("1979-05-27", "a date"),
            ("{}", "a table"),
            ("[1]", "an array that is not all strings"),
        ] {
            let layer = parse(&format!("max-hours = {value}"));
            let layer = layer.unwrap();
            assert_eq!(layer.get("max-hours").unwrap().0, &Raw::Other(found), "{value}");
        }
    }

    #[test]
    fn hexadecimal_is_a_number_in_toml() {
        assert_eq!(parse("max-sessions = 0x10").unwrap().get("max-sessions").unwrap().0, &Raw::Number(16.0));
    }

    #[test]
    fn empty_variables_are_not_set() {
        let layer = Layer::from_env(&|name| match name {
            "AUTOPILOT_MAX_HOURS" => Some(OsString::new()),
            "AUTOPILOT_MODEL" => Some(OsString::from("opus")),
            _ => None,
        });
        assert_eq!(layer.names().collect::<Vec<_>>(), ["model"]);
    }

    #[test]
    fn positions() {
        for (offset, expected) in [(0, (1, 1)), (1, (1, 2)), (3, (2, 1)), (5, (2, 2)), (99, (2, 3))] {
            assert_eq!(position("ab\nöx", offset), expected, "{offset}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_or_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ConfigFile::read(&folder.path().join("none.toml")).unwrap().is_none());
        assert!(matches!(ConfigFile::read(folder.path()), Err(SettingsError::Read { .. })));
        let path = folder.path().join("latin1.toml");
        std::io::Write::write_all(&mut std::fs::File::create(&path).unwrap(), b"model = '\xe9'").unwrap();
        assert!(matches!(ConfigFile::read(&path), Err(SettingsError::Read { .. })));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            drop(parse(&text));
        }

        #[test]
        fn no_value_makes_it_panic(value in "[-+0-9xobe_.a-f\\[\\]{}'\"=, \n]{0,24}") {
            drop(parse(&format!("max-sessions = {value}")));
        }
    }
}
