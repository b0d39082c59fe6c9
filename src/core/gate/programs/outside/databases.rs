//! What removes data.

use super::super::super::shell::{Feed, Value};
use super::super::{Objection, Run, refused};
use super::{has, verbs};

pub(super) fn databases(run: &Run<'_>, feed: &Feed) -> Objection {
    const CLIENTS: [&str; 22] = [
        "psql",
        "mysql",
        "mariadb",
        "sqlite3",
        "sqlite",
        "sqlcmd",
        "mycli",
        "pgcli",
        "litecli",
        "usql",
        "duckdb",
        "clickhouse-client",
        "clickhouse",
        "cockroach",
        "bq",
        "snowsql",
        "impala-shell",
        "beeline",
        "hive",
        "db2",
        "sqlplus",
        "isql",
    ];
    const OTHERS: [&str; 5] = ["redis-cli", "mongosh", "mongo", "cqlsh", "influx"];
    let is_sql = CLIENTS.contains(&run.name);
    if !is_sql && !OTHERS.contains(&run.name) {
        return match run.name {
            "dropdb" | "dropuser" | "mysqladmin"
                if run.name != "mysqladmin" || has(run, &["drop", "shutdown", "flush-tables"]) =>
            {
                refused("it removes a database")
            }
            "rails" | "rake" | "bin/rails"
                if has(run, &["db:drop", "db:reset", "db:purge", "db:schema:load"]) =>
            {
                refused("it removes a database")
            }
            "prisma"
                if verbs(run).join(" ").contains("migrate reset")
                    || has(run, &["--force-reset", "--accept-data-loss"]) =>
            {
                refused("it removes a database")
            }
            "manage.py" | "django-admin" if has(run, &["flush", "reset_db"]) => {
                refused("it removes what is in a database")
            }
            _ => None,
        };
    }
    let mut said = run.arguments.iter().map(Value::shown).collect::<Vec<_>>().join(" ");
    let mut unknown = run.arguments.iter().any(|argument| {
        argument.is_uncertain()
            && argument.beginning().is_empty()
            && run.arguments.len() > 1
            && is_sql
            && has(run, &["-c", "-e", "--command", "--execute"])
    });
    match feed {
        Feed::Pipe(text) | Feed::Text { text, .. } => {
            said.push('\n');
            said.push_str(text);
            unknown |= matches!(feed, Feed::Pipe(text) if !text.contains(|c: char| c.is_alphabetic()));
        }
        Feed::File(_) | Feed::Nothing => {}
    }
    let lower = said.to_lowercase();
    let mut words = String::new();
    // Comments and blanks between the words do not hide them.
    let mut in_comment = false;
    let chars: Vec<char> = lower.chars().collect();
    for (at, c) in chars.iter().enumerate() {
        let next = chars.get(at + 1);
        if *c == '/' && next == Some(&'*') {
            in_comment = true;
        }
        if in_comment {
            in_comment = !(*c == '/' && at > 0 && chars[at - 1] == '*');
            words.push(' ');
        } else if c.is_alphanumeric() || *c == '_' {
            words.push(*c);
        } else {
            words.push(' ');
        }
    }
    let words: Vec<&str> = words.split_whitespace().collect();
    let pair =
        |one: &str, others: &[&str]| words.windows(2).any(|pair| pair[0] == one && others.contains(&pair[1]));
    let destroys = pair(
        "drop",
        &[
            "table",
            "database",
            "schema",
            "view",
            "index",
            "user",
            "role",
            "column",
            "owned",
            "materialized",
            "type",
            "function",
            "extension",
            "keyspace",
            "collection",
            "sequence",
            "temporary",
        ],
    ) || pair("delete", &["from"])
        || words.contains(&"truncate")
        || words.iter().any(|word| {
            ["flushall", "flushdb", "dropdatabase", "deletemany", "dropcollection"].contains(word)
        })
        || OTHERS.contains(&run.name)
            && (words.contains(&"drop")
                || words.contains(&"remove") && run.name.starts_with("mongo")
                || words.contains(&"shutdown"))
        || is_sql && said.contains("\\!")
        || run.name.starts_with("sqlite")
            && (words.contains(&"shell") && said.contains(".shell") || said.contains(".system"));
    if destroys {
        return refused(
            "it removes what is in a database; a migration of the project can do that, looked over by a person",
        );
    }
    unknown.then(|| refused("what it does to the database cannot be known before it runs")).flatten()
}
