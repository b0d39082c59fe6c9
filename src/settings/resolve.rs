//! From layers to [`Settings`]: pure, total over its inputs, and the only place that knows the precedence.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::error::{SettingsError, place};
use super::key::{Context, Key};
use super::layer::{ConfigFile, Layer, Origin};
use super::value::{Raw, Shown};
use super::{
    Budgets, Claude, Deadlines, Notifications, PromptSource, Safety, Settings, StopRules, Work, env_vars,
    keys,
};
use crate::core::autonomy::Autonomy;
use crate::core::gate::Rules;

/// Settings, where each came from, and what was adjusted.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The settings.
    pub settings: Settings,
    /// Every setting with its value and origin, in the order of [`keys::ALL`].
    pub entries: Vec<Entry>,
    /// What a person should know: one line each, no full stop.
    pub notices: Vec<String>,
}

/// A setting as it is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Name of the setting.
    pub name: &'static str,
    /// Its value; `None` = not set.
    pub shown: Option<Shown>,
    /// Where it came from.
    pub origin: Origin,
}

impl Resolved {
    /// The entry of a setting.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Takes over what the repository's `## Session Config` says of the pre-launch verdict, where no other layer
    /// says anything.
    pub fn take_session_config(&mut self, path: &Path, autonomy: Option<Autonomy>, floor: Option<f64>) {
        if let Some(autonomy) = autonomy
            && self.fill("autonomy", Shown::Text(autonomy.as_str().to_owned()), path)
        {
            self.settings.stop_rules.autonomy = autonomy;
        }
        if let Some(floor) = floor
            && self.fill("confidence-floor", Shown::Number(floor), path)
        {
            self.settings.stop_rules.confidence_floor = floor;
        }
    }

    /// Whether the setting was still at its default.
    fn fill(&mut self, name: &str, shown: Shown, path: &Path) -> bool {
        let entry =
            self.entries.iter_mut().find(|entry| entry.name == name && entry.origin == Origin::Default);
        if let Some(entry) = entry {
            (entry.shown, entry.origin) = (Some(shown), Origin::SessionConfig { path: path.to_owned() });
            return true;
        }
        false
    }
}

/// Resolves the layers: command line, variables, the repository's file, the user's file, defaults.
///
/// # Errors
///
/// The first value, key or file that cannot be used, also where a stronger layer would hide it.
pub fn resolve(
    flags: &Layer,
    env: &impl Fn(&str) -> Option<OsString>,
    repository: Option<&ConfigFile>,
    user: Option<&ConfigFile>,
) -> Result<Resolved, SettingsError> {
    let mut layers = vec![flags.clone(), Layer::from_env(env)];
    for file in [repository, user].into_iter().flatten() {
        layers.push(Layer::from_file(file)?);
    }
    let home = env(env_vars::HOME).filter(|home| !home.is_empty()).map(PathBuf::from);
    let mut r = Resolver { layers, home, entries: Vec::new(), notices: Vec::new() };

    // Fields are evaluated in the order they are written: that of `keys::ALL`, of `entries` and of notices.
    let settings = Settings {
        budgets: Budgets {
            max_sessions: r.take(&keys::MAX_SESSIONS)?,
            max_hours: r.take(&keys::MAX_HOURS)?,
            limit_wait_free: r.take(&keys::LIMIT_WAIT_FREE)?,
            max_tokens: r.take(&keys::MAX_TOKENS)?,
            max_cost: r.take(&keys::MAX_COST)?,
            reserve: r.take(&keys::RESERVE)?,
        },
        stop_rules: StopRules {
            confidence_threshold: r.take(&keys::CONFIDENCE_THRESHOLD)?,
            carryover_threshold: r.take(&keys::CARRYOVER_THRESHOLD)?,
            peer_abort: r.take(&keys::PEER_ABORT)?,
            autonomy: r.take(&keys::AUTONOMY)?,
            confidence_floor: r.take(&keys::CONFIDENCE_FLOOR)?,
            stuck_detection: r.take(&keys::STUCK_DETECTION)?,
        },
        deadlines: Deadlines {
            stall: r.take(&keys::STALL_TIMEOUT)?,
            first_output: r.take(&keys::FIRST_OUTPUT_TIMEOUT)?,
            turn: r.take(&keys::TURN_TIMEOUT)?,
            exit_grace: r.take(&keys::EXIT_GRACE)?,
            max_wait: r.take(&keys::MAX_WAIT)?,
            verify: r.take(&keys::VERIFY_TIMEOUT)?,
            escalation: r.take(&keys::ESCALATION_TIMEOUT)?,
            turn_backoff: r.take(&keys::TURN_BACKOFF)?,
            heal_backoff: r.take(&keys::HEAL_BACKOFF)?,
            peer_grace: r.take(&keys::PEER_GRACE)?,
            deadline: r.take(&keys::DEADLINE)?,
        },
        work: Work {
            mode: r.take(&keys::MODE)?,
            prompt: r.take_prompt()?,
            verify: r.take(&keys::VERIFY)?,
            chain: r.take(&keys::CHAIN)?,
            agents_per_wave: r.take(&keys::AGENTS_PER_WAVE)?,
            session_command: r.take(&keys::SESSION_COMMAND)?,
            forge: r.take(&keys::FORGE)?,
            backlog_label: r.take(&keys::BACKLOG_LABEL)?,
            state_file: r.take(&keys::STATE_FILE)?,
            follow_ups: r.take(&keys::FOLLOW_UPS)?,
        },
        claude: Claude {
            bin: r.take(&keys::CLAUDE_BIN)?,
            model: r.take(&keys::MODEL)?,
            fallback_model: r.take(&keys::FALLBACK_MODEL)?,
            permission_mode: r.take(&keys::PERMISSION_MODE)?,
            allowed_tools: r.take(&keys::ALLOWED_TOOLS)?,
            mcp_config: r.take(&keys::MCP_CONFIG)?,
            args: r.take(&keys::CLAUDE_ARG)?,
            billing: r.take(&keys::BILLING)?,
            engine: r.take(&keys::ENGINE)?,
            triage: r.take(&keys::TRIAGE_COMMAND)?,
        },
        safety: Safety {
            dry_run: r.take(&keys::DRY_RUN)?,
            allow_nested: r.take(&keys::ALLOW_NESTED)?,
            allow_peers: r.take(&keys::ALLOW_PEERS)?,
            no_inhibit: r.take(&keys::NO_INHIBIT)?,
            gate: r.take(&keys::GATE)?,
            rules: Rules {
                deny: r.take(&keys::GATE_DENY)?,
                ask: r.take(&keys::GATE_ASK)?,
                allow: r.take(&keys::GATE_ALLOW)?,
            },
            keep_runs: r.take(&keys::KEEP_RUNS)?,
            keep_size: r.take(&keys::KEEP_SIZE)?,
        },
        notifications: Notifications {
            command: r.take(&keys::NOTIFY_COMMAND)?,
            webhooks: r.take(&keys::NOTIFY_WEBHOOK)?,
            desktop: r.take(&keys::NOTIFY_DESKTOP)?,
            mail: r.take(&keys::NOTIFY_MAIL)?,
            on: r.take(&keys::NOTIFY_ON)?,
            quiet_hours: r.take(&keys::QUIET_HOURS)?,
            urgent_always: r.take(&keys::QUIET_URGENT)?,
            cooldown: r.take(&keys::NOTIFY_COOLDOWN)?,
        },
    };
    Ok(Resolved { settings, entries: r.entries, notices: r.notices })
}

struct Resolver {
    /// Strongest first.
    layers: Vec<Layer>,
    home: Option<PathBuf>,
    entries: Vec<Entry>,
    notices: Vec<String>,
}

impl Resolver {
    /// The value of the strongest layer that has one; all of them are read, so that none is wrong unseen.
    fn take<K: Key>(&mut self, key: &K) -> Result<K::Out, SettingsError> {
        let name = key.spec().name;
        let mut winner = None;
        for layer in &self.layers {
            let Some((raw, origin)) = layer.get(name) else { continue };
            let context = Context { base: base_of(origin), home: self.home_for(origin) };
            let reading = key.read(raw, &context).map_err(|refusal| SettingsError::Value {
                key: name,
                origin: origin.clone(),
                expected: refusal.expected,
                found: if key.is_secret() { "something else".to_owned() } else { raw.describe() },
                suggestion: refusal.suggestion,
            })?;
            if winner.is_none() {
                let notice = reading.remark.map(|remark| format!("{} {remark}", given(name, raw, origin)));
                winner = Some((reading.value, reading.shown, origin.clone(), notice));
            }
        }
        let (value, shown, origin) = match winner {
            Some((value, shown, origin, notice)) => {
                self.notices.extend(notice);
                (value, shown, origin)
            }
            None => (key.default(), key.default_shown(), Origin::Default),
        };
        self.entries.push(Entry { name, shown, origin });
        Ok(value)
    }

    /// `prompt` and `prompt-file` are one setting with two names: the stronger source decides, and a source
    /// that gives both is refused.
    fn take_prompt(&mut self) -> Result<Option<PromptSource>, SettingsError> {
        let (text_name, file_name) = (keys::PROMPT.spec.name, keys::PROMPT_FILE.spec.name);
        for layer in &self.layers {
            if let (Some((_, first)), Some((_, second))) = (layer.get(text_name), layer.get(file_name)) {
                return Err(SettingsError::TwoPrompts {
                    first: place(first, text_name),
                    second: place(second, file_name),
                    on_command_line: matches!(first, Origin::Flag(_)),
                });
            }
        }
        let strongest = self
            .layers
            .iter()
            .position(|layer| [text_name, file_name].iter().any(|n| layer.get(n).is_some()));
        let text = self.take(&keys::PROMPT)?;
        let file = self.take(&keys::PROMPT_FILE)?;
        let strongest = strongest.and_then(|at| self.layers.get(at));
        let text_wins = strongest.is_some_and(|layer| layer.get(text_name).is_some());
        let loser = if text_wins { file_name } else { text_name };
        for entry in self.entries.iter_mut().filter(|entry| entry.name == loser) {
            (entry.shown, entry.origin) = (None, Origin::Default);
        }
        if text_wins {
            let text = text.unwrap_or_default();
            if text.trim().is_empty() {
                let origin =
                    strongest.and_then(|layer| layer.get(text_name)).map(|(_, origin)| origin.clone());
                return Err(SettingsError::BlankPrompt {
                    key: text_name,
                    origin: origin.unwrap_or(Origin::Default),
                });
            }
            return Ok(Some(PromptSource::Text(text)));
        }
        Ok(file
            .map(|path| if path == Path::new("-") { PromptSource::Stdin } else { PromptSource::File(path) }))
    }

    /// `~/` is for the shell to expand on the command line, and for us where there was no shell.
    fn home_for(&self, origin: &Origin) -> Option<&Path> {
        match origin {
            Origin::Flag(_) => None,
            Origin::Env(_) | Origin::File { .. } | Origin::SessionConfig { .. } | Origin::Default => {
                self.home.as_deref()
            }
        }
    }
}

/// Relative paths of a file count from its folder, all others from the working directory.
fn base_of(origin: &Origin) -> Option<&Path> {
    match origin {
        Origin::File { path, .. } => path.parent(),
        Origin::Flag(_) | Origin::Env(_) | Origin::SessionConfig { .. } | Origin::Default => None,
    }
}

/// A value the way it was given.
fn given(name: &str, raw: &Raw, origin: &Origin) -> String {
    let value = raw.as_typed();
    match origin {
        Origin::Flag(name) => format!("--{name} {value}"),
        Origin::Env(variable) => format!("{variable}={value}"),
        Origin::File { .. } => format!("{origin}: {name} = {value}"),
        Origin::SessionConfig { .. } | Origin::Default => format!("{name} {value}"),
    }
}

#[cfg(test)]
mod tests;
