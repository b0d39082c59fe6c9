//! What can be wrong with settings, where, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::keys;
use super::layer::Origin;

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A configuration file is there and cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A configuration file is not TOML.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// A configuration file has a key that is not a setting.
    #[error("{}:{line}: unknown key `{key}`", path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// The key.
        key: String,
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A value is not of the right type.
    #[error("{}: expected {expected}, found {found}", place(origin, key))]
    Value {
        /// The setting.
        key: &'static str,
        /// Where the value came from.
        origin: Origin,
        /// What would have been taken.
        expected: String,
        /// What is there.
        found: String,
        /// The value that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// One source gives a prompt and a prompt file.
    #[error("{first} and {second} cannot both be set")]
    TwoPrompts {
        /// The prompt.
        first: String,
        /// The prompt file.
        second: String,
        /// Where both came from.
        on_command_line: bool,
    },
    /// A prompt is nothing but white space (field-reports A07: the CLI would hang or fail on it).
    #[error("{} is blank", place(origin, key))]
    BlankPrompt {
        /// The setting.
        key: &'static str,
        /// Where it came from.
        origin: Origin,
    },
}

/// A value by its place: `--key`, `AUTOPILOT_KEY` or `file:line: key`.
pub(super) fn place(origin: &Origin, key: &str) -> String {
    match origin {
        Origin::File { .. } => format!("{origin}: `{key}`"),
        Origin::Flag(_) | Origin::Env(_) | Origin::SessionConfig { .. } | Origin::Default => {
            origin.to_string()
        }
    }
}

impl SettingsError {
    /// Whether the command line is at fault, not the configuration.
    #[must_use]
    pub fn is_command_line(&self) -> bool {
        match self {
            SettingsError::Read { .. } | SettingsError::Syntax { .. } | SettingsError::UnknownKey { .. } => {
                false
            }
            SettingsError::Value { origin, .. } | SettingsError::BlankPrompt { origin, .. } => {
                matches!(origin, Origin::Flag(_))
            }
            SettingsError::TwoPrompts { on_command_line, .. } => *on_command_line,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            SettingsError::Read { .. } => vec!["correct its permissions, or remove it".to_owned()],
            SettingsError::Syntax { .. } => {
                vec!["the file is TOML with one `key = value` a line, for example `max-hours = 4`".to_owned()]
            }
            SettingsError::UnknownKey { key, suggestion, .. } => vec![match suggestion {
                Some(suggestion) => format!("did you mean `{suggestion}`?"),
                None if keys::COMMAND_LINE_ONLY.contains(&key.as_str()) => {
                    format!("`--{key}` is an option of the command line only")
                }
                None => "`autopilot config show` lists all keys".to_owned(),
            }],
            SettingsError::Value { suggestion: Some(suggestion), .. } => {
                vec![format!("did you mean `{suggestion}`?")]
            }
            SettingsError::Value { key, origin, suggestion: None, .. } => {
                example(key, origin).into_iter().collect()
            }
            SettingsError::TwoPrompts { .. } => vec!["keep one of them".to_owned()],
            SettingsError::BlankPrompt { key, .. } => {
                vec![format!("say what to work on, or leave `{key}` out and give a mode")]
            }
        }
    }
}

/// How the value would be written, where it was written.
fn example(key: &str, origin: &Origin) -> Option<String> {
    let setting = keys::find(key)?;
    let value = setting.example();
    Some(match origin {
        Origin::Flag(_) | Origin::SessionConfig { .. } | Origin::Default => {
            format!("for example `--{key}={}`", value.words())
        }
        Origin::Env(variable) => format!("for example `{variable}={}`", value.words()),
        Origin::File { .. } => format!("for example `{key} = {}`", value.toml()),
    })
}
