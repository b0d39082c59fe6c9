//! Starting an attempt: prompt, command line, environment, process.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use uuid::Uuid;

use crate::core::event::{Event, Launch};
use crate::core::evidence::{AttemptEnd, LaunchFailure};
use crate::core::fact::Fact;
use crate::core::outcome::Class;
use crate::core::published::{Purpose, RunEvent};
use crate::core::session_report;
use crate::engine::headless::{self, Billing, ChildEnvironment, Invocation, Order, PassThrough, Protocol};
#[cfg(feature = "pty")]
use crate::engine::pty;
use crate::git;
use crate::journal::raw::RawLog;
use crate::process::SpawnSpec;
use crate::prompts::{self, Budget, Context, Kind};
use crate::state::space::free_bytes;
use crate::transcript;

use super::{Carrier, Driver, Setup, clock};

/// How long `initialize` may stay unanswered before the CLI counts as one that does not know it. Measured: a
/// whole turn takes 1.5 s (claude-code §1); a cold start on a loaded machine takes a few seconds.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Free space, in bytes, below which no session is started: transcript, build and commit need some.
const LEAST_FREE: u64 = 32 << 20;

/// Variables set for the child, whatever ours are.
fn own_variables(run_id: &str) -> [(&'static str, String); 3] {
    [
        ("AUTOPILOT_RUN_ID", run_id.to_owned()),
        // A binary that is swapped in the middle of the night (field-reports K08).
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        // Background work is cut off at the end of a print-mode turn (field-reports B01).
        ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1".to_owned()),
    ]
}

/// The environment of every attempt of a run.
#[must_use]
pub fn environment(setup: &Setup) -> ChildEnvironment {
    let own = own_variables(&setup.run_id);
    headless::child_environment(setup.environment.iter().cloned(), setup.billing, &own)
}

/// Where the child keeps its configuration and transcripts.
pub(super) fn config_dir(setup: &Setup) -> Option<PathBuf> {
    let child = environment(setup);
    let get =
        |name: &str| child.variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str());
    transcript::config_dir(get("CLAUDE_CONFIG_DIR"), get("HOME"), &setup.repo.root)
}

/// The command line of the first turn, for `--dry-run`.
#[must_use]
pub fn planned_argv(pass_through: &PassThrough, budget_usd: Option<f64>) -> Vec<OsString> {
    headless::argv(&Invocation {
        session_id: "<new uuid>",
        resume: false,
        protocol: Protocol::Control,
        report_schema: Some("<session report>"),
        budget_usd,
        pass_through,
    })
}

impl Driver<'_> {
    pub(super) async fn launch(&mut self, launch: Launch) {
        let attempt = launch.attempt;
        if launch.quarantine {
            self.quarantine(&launch.session_id);
        }
        let root = &self.setup.repo.root;
        // Our own records may have made the folder again; a session must not start in an empty one
        // (field-reports K09).
        if !root.join(".git").exists() {
            let words = format!("`{}` is not a git repository any more", root.display());
            self.not_launched(attempt, LaunchFailure::DirectoryGone, words);
            return;
        }
        // A session on a full disk works for nothing, and may leave half a file (field-reports K07).
        let places = [Some(root.as_path()), self.config_dir.as_deref()];
        let full = places.into_iter().flatten().find_map(|place| {
            free_bytes(place).filter(|free| *free < LEAST_FREE).map(|free| (place.to_owned(), free))
        });
        if let Some((place, free)) = full {
            let words = format!("only {} MB are free at {}", free >> 20, place.display());
            self.not_launched(attempt, LaunchFailure::DiskFull, words);
            return;
        }
        let lost = self.lost(&launch).await;
        let prompt = match self.prompt(&launch, lost) {
            Ok(prompt) => prompt,
            Err(error) => {
                self.not_launched(attempt, LaunchFailure::Other, error.to_string());
                return;
            }
        };
        let setup = self.setup;
        let ChildEnvironment { variables, removed, kept, billing: _ } = environment(setup);
        let protocol = if launch.plain { Protocol::Plain } else { Protocol::Control };
        let args = argv(
            &setup.engine,
            &Invocation {
                session_id: &launch.session_id,
                resume: launch.resume,
                protocol,
                report_schema: Some(session_report::schema()),
                budget_usd: launch.budget_left_usd,
                pass_through: &setup.pass_through,
            },
        );
        self.iteration = launch.iteration;
        self.publish(&RunEvent::TurnStarted {
            session_id: launch.session_id.clone(),
            turn: launch.turn,
            purpose: launch.purpose,
            prompt_bytes: prompt.len() as u64,
            transcript_offset: launch.transcript_offset,
        });
        let started = RunEvent::AttemptStarted {
            attempt,
            session_id: launch.session_id.clone(),
            resume: launch.resume,
            argv: shown(&args),
            env_removed: removed,
            env_kept: kept,
        };
        // Written ahead: a process that nobody knows of must not be possible (field-reports H14).
        let now = clock::now();
        let seq = Some(self.journal.next_seq());
        match self.journal.append_durable(&started, now) {
            Ok(ack) => {
                if let Err(error) = ack.wait().await {
                    self.journal_failed(&error);
                }
            }
            Err(error) => self.journal_failed(&error),
        }
        self.observer.event(now, seq, &started);

        let uuid = Uuid::parse_str(&launch.session_id).ok();
        self.transcript = self.locate(&launch.session_id).ok().flatten().or_else(|| {
            let config_dir = self.config_dir.as_deref()?;
            transcript::expected_path(config_dir, &setup.repo.root, uuid?)
        });
        let stream = setup.run_dir.stream();
        #[cfg(feature = "pty")]
        if let Carrier::Pty { triage, may_bypass } = &setup.engine {
            let Some(transcript) = self.transcript.clone() else {
                let words =
                    "nobody knows where its transcript is: HOME and CLAUDE_CONFIG_DIR are not set".to_owned();
                self.not_launched(attempt, LaunchFailure::Other, words);
                return;
            };
            let order = pty::Order {
                attempt,
                spawn: SpawnSpec {
                    program: setup.claude.clone(),
                    args,
                    env: on_a_terminal(variables),
                    cwd: setup.repo.root.clone(),
                    cookie: setup.cookie.clone(),
                },
                prompt,
                report_schema: Some(session_report::schema().to_owned()),
                session_id: launch.session_id.clone(),
                resume: launch.resume,
                may_bypass: *may_bypass,
                transcript,
                triage: triage.clone(),
                stdout_log: Box::new(Tee(RawLog::new(&setup.run_dir.stream(), attempt))),
            };
            if self.said.session_id != launch.session_id {
                self.said = Said { session_id: launch.session_id.clone(), ..Said::default() };
            }
            self.handle = Some(pty::launch(order, self.attempts.clone(), &self.tasks));
            return;
        }
        let order = Order {
            attempt,
            spawn: SpawnSpec {
                program: setup.claude.clone(),
                args,
                env: variables,
                cwd: setup.repo.root.clone(),
                cookie: setup.cookie.clone(),
            },
            protocol,
            needs_command: prompts::plugin_command(&prompt).map(str::to_owned),
            prompt,
            handshake_timeout: HANDSHAKE.min(setup.limits.first_output_timeout),
            stdout_log: Box::new(Tee(RawLog::new(&stream, attempt))),
        };
        if self.said.session_id != launch.session_id {
            self.said = Said { session_id: launch.session_id.clone(), ..Said::default() };
        }
        self.handle = Some(headless::launch(order, self.attempts.clone(), &self.tasks));
    }

    fn not_launched(&mut self, attempt: u32, failure: LaunchFailure, words: String) {
        let end = AttemptEnd { launch_failure: Some((failure, words)), ..AttemptEnd::default() };
        self.pending.push_back(Event::AttemptOver { attempt, end: Box::new(end) });
    }

    /// A transcript without a message blocks its id from both sides (recovery §1.7).
    fn quarantine(&mut self, session_id: &str) {
        let Ok(Some(path)) = self.locate(session_id) else { return };
        let now_ms = u64::try_from(clock::wall().as_millisecond()).unwrap_or_default();
        match transcript::quarantine(&path, now_ms) {
            Ok(transcript::Quarantine::Renamed(to)) => self.publish(&RunEvent::Warning {
                text: format!("a transcript without messages blocked its id; moved to {}", to.display()),
            }),
            Ok(transcript::Quarantine::NothingThere | transcript::Quarantine::Refused) => {}
            // The CLI will say loudly that the id is taken.
            Err(error) => self.publish(&RunEvent::Warning { text: error.to_string() }),
        }
    }

    /// What is left of the conversation that this one takes over from: what it said and read last, and the state
    /// of the repository. Whatever cannot be read is left out; the session can look for itself.
    async fn lost(&mut self, launch: &Launch) -> Lost {
        let Some(left) = launch.left.as_ref().filter(|_| !launch.resume) else { return Lost::default() };
        let git_state = git::state_words(&self.setup.repo).await.ok().filter(|words| !words.is_empty());
        let path = self.locate(&left.session_id).ok().flatten();
        let Some(path) = path else {
            let said = Some(&self.said).filter(|said| said.session_id == left.session_id);
            let texts = said.map(|said| said.texts.iter().cloned().collect()).unwrap_or_default();
            return Lost { git_state, texts, ..Lost::default() };
        };
        self.publish(&RunEvent::Warning {
            text: format!("the transcript of conversation {} stays at {}", left.session_id, path.display()),
        });
        let words = tokio::task::spawn_blocking(move || transcript::last_words(&path)).await;
        let mut words = words.ok().and_then(Result::ok).unwrap_or_default();
        // A transcript that lost its end, or was not written, knows less than the stream (field-reports I10, I16).
        if self.said.session_id == left.session_id && self.said.texts.len() > words.texts.len() {
            words.texts = self.said.texts.iter().cloned().collect();
        }
        // What was read last is what a conversation that broke, or is full, could not carry.
        let heavy = matches!(left.class, Class::PoisonedSession | Class::ContextFull | Class::UnknownError);
        let files_read = if heavy { words.files_read } else { Vec::new() };
        Lost { git_state, texts: words.texts, files_read }
    }

    fn prompt(&self, launch: &Launch, lost: Lost) -> Result<String, prompts::PromptError> {
        let setup = self.setup;
        let mut context = Context::new(launch.mode);
        context.session = launch.iteration;
        context.max_sessions = setup.limits.max_sessions;
        context.prompt.clone_from(&setup.prompt);
        context.wave_cap = launch.cap;
        context.budget = Budget {
            time: Some(launch.time_left),
            output_tokens: launch.tokens_left,
            cost_usd: launch.budget_left_usd,
        };
        context.verify.clone_from(&setup.verify);
        context.tasks = launch.tasks.iter().map(prompts::task_words).collect();
        context.handover.clone_from(&launch.hand_over.summary);
        context.do_not_retry.clone_from(&launch.hand_over.do_not_retry);
        context.open_questions.clone_from(&launch.hand_over.open_questions);
        if let Some(answer) = &launch.answer {
            context.question = Some(answer.question.clone());
            context.answer = Some(answer.answer.clone());
        }
        let told = launch.purpose == Purpose::Nudge || launch.purpose == Purpose::Reconcile && !launch.resume;
        if let Some(circle) = launch.circle.as_ref().filter(|_| told) {
            context.cause = Some(circle.cause.clone());
            context.do_not_retry.extend(circle.tried.iter().cloned());
        }
        if let Some(left) = launch.left.as_ref().filter(|_| !launch.resume) {
            context.cause.get_or_insert_with(|| left.why.clone());
            context.do_not_retry.extend(lost.files_read.iter().map(|file| {
                format!("Reading {file} whole: it was among the last things the lost session read before it could not go on. Look at parts of it, or work without it.")
            }));
        }
        context.git_state = lost.git_state;
        context.last_texts = lost.texts;
        let templates = setup.repo.root.join(".autopilot").join("commands");
        let templates = Some(templates.as_path());
        let plugin = setup.session_command.as_deref();
        let command =
            plugin.and_then(|plugin| prompts::session_command(plugin, launch.mode, setup.prompt.as_deref()));
        let work = match command {
            Some(command) => command,
            None => prompts::render(Kind::Session, &context, templates)?,
        };
        let kind = match launch.purpose {
            Purpose::Work => return Ok(work),
            // Only so the CLI takes it as its command.
            Purpose::Compact => return Ok("/compact".to_owned()),
            Purpose::Nudge => Kind::Nudge,
            Purpose::WrapUp => Kind::WrapUp,
            Purpose::Close => Kind::Close,
            Purpose::Continue => Kind::Continue,
            Purpose::Answer => Kind::Answer,
            Purpose::Reconcile if launch.resume => Kind::Reconcile,
            // The conversation is a new one: it knows nothing of the work.
            Purpose::Reconcile => Kind::Handover,
        };
        context.instruction = Some(work);
        prompts::render(kind, &context, templates)
    }
}

/// What is left of a conversation that is left.
#[derive(Debug, Default)]
struct Lost {
    git_state: Option<String>,
    texts: Vec<String>,
    files_read: Vec<String>,
}

/// What the conversation said last, as it stood in the stream.
#[derive(Debug, Default)]
pub(super) struct Said {
    session_id: String,
    texts: VecDeque<String>,
}

impl Said {
    /// Texts that are kept, and bytes of each: as much as is read back from a transcript.
    const TEXTS: usize = 8;
    const BYTES: usize = 600;

    pub(super) fn take(&mut self, fact: &Fact) {
        let Fact::Text { text, sub_agent: false } = fact else { return };
        if self.texts.len() == Self::TEXTS {
            self.texts.pop_front();
        }
        self.texts.push_back(text[..text.floor_char_boundary(Self::BYTES)].to_owned());
    }
}

/// The arguments of an attempt.
fn argv(carrier: &Carrier, invocation: &Invocation<'_>) -> Vec<OsString> {
    match carrier {
        Carrier::Headless => headless::argv(invocation),
        #[cfg(feature = "pty")]
        Carrier::Pty { .. } => pty::argv(invocation),
    }
}

/// A program on a terminal wants to know which.
#[cfg(feature = "pty")]
fn on_a_terminal(mut variables: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    variables.retain(|(name, _)| name != "TERM" && name != "COLUMNS" && name != "LINES");
    variables.push(("TERM".into(), "xterm-256color".into()));
    variables
}

/// The raw log as the engine sees it: it takes everything and never fails.
struct Tee(RawLog);

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush();
        Ok(())
    }
}

/// Arguments as they are journaled: the schema is long and always the same.
fn shown(args: &[OsString]) -> Vec<String> {
    let mut schema_next = false;
    args.iter()
        .map(|arg| {
            let text = arg.to_string_lossy();
            if std::mem::replace(&mut schema_next, text == "--json-schema") {
                "<session report>".to_owned()
            } else {
                text.into_owned()
            }
        })
        .collect()
}

/// Whether the environment makes somebody else than the subscription pay, in words for people.
#[must_use]
pub fn billing_notice(setup: &Setup) -> Option<String> {
    let ChildEnvironment { billing, .. } = environment(setup);
    (setup.billing == Billing::Inherit && !billing.is_empty()).then(|| {
        format!(
            "{} set: sessions are billed to or sent where that says (billing = \"subscription\" drops it)",
            billing.join(", ")
        )
    })
}
