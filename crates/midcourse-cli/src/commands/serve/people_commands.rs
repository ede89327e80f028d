//! `midcourse serve add`, `remove` and `people`: change and show the people file.

use std::fs::OpenOptions;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use midcourse::{Timestamp, now};

use super::people::{ALL, People, Person, check_name};
use super::token::{hash_of, new_token};
use crate::commands::columns;
use crate::display::{escape_control_chars, rfc3339};
use crate::duration::parse_duration;
use crate::terminal::eprint_line;
use crate::user_file::UserFile;

#[derive(clap::Args)]
pub(super) struct AddArguments {
    /// Name this person, as the pages show it.
    name: String,
    /// Let the person see this project; may be repeated. `*` is every project, also later ones.
    #[arg(long = "project", value_name = "PROJECT", required = true, value_delimiter = ',')]
    projects: Vec<String>,
    /// End the access after this time, such as 90d.
    #[arg(long, value_name = "DURATION")]
    expires: Option<String>,
    /// Replace the entry and the token of a person who has one already.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    file: FileArgument,
}

#[derive(clap::Args)]
pub(super) struct RemoveArguments {
    /// Remove the person with this name.
    name: String,
    #[command(flatten)]
    file: FileArgument,
}

#[derive(clap::Args)]
pub(super) struct FileArgument {
    /// Use this people file; only you may be able to read it.
    #[arg(long, value_name = "FILE")]
    people: PathBuf,
}

/// Adds an entry and prints its token, which is not stored anywhere.
pub(super) fn add(arguments: &AddArguments) -> Result<()> {
    let (name, path) = (&arguments.name, &arguments.file.people);
    check_name(name)?;
    for project in arguments.projects.iter().filter(|project| *project != ALL) {
        check_name(project)?;
    }
    let expires = arguments.expires.as_deref().map(from_now).transpose()?;
    create_private(path)?;
    let (file, mut people) = read(path)?;
    if people.get(name).is_some() && !arguments.replace {
        bail!("{name} has an entry already; `--replace` replaces it and its token");
    }
    let token = new_token()?;
    let hash = hash_of(&token).context("the new token is not valid")?;
    let projects = arguments.projects.clone();
    people.insert(Person { name: name.clone(), token: hash, projects, expires });
    file.replace(people.text()?.as_bytes())?;
    eprint_line("The token, which is shown only now. Pass it on where nobody else can read it:");
    writeln!(stdout(), "{token}")?;
    Ok(())
}

/// Removes an entry, which ends the sessions of the person.
pub(super) fn remove(arguments: &RemoveArguments) -> Result<()> {
    let (name, path) = (&arguments.name, &arguments.file.people);
    let (file, mut people) = read(path)?;
    ensure!(
        people.remove(name).is_some(),
        "there is no entry {name:?} in {}; `midcourse serve people` lists them",
        path.display()
    );
    file.replace(people.text()?.as_bytes())?;
    eprint_line(&format!("Removed {}. Their sessions end now.", escape_control_chars(name)));
    Ok(())
}

/// Prints who may see what.
pub(super) fn list(arguments: &FileArgument) -> Result<()> {
    let people = People::read(&arguments.people)?;
    let mut table = columns::table(["NAME", "PROJECTS", "EXPIRES"]);
    for person in people.iter() {
        let expires = match person.expires {
            Some(time) if person.is_expired() => format!("{} (over)", rfc3339(time)),
            Some(time) => rfc3339(time),
            None => "never".to_owned(),
        };
        let shown = |text: &str| escape_control_chars(text).into_owned();
        table.add_row([shown(&person.name), shown(&person.projects.join(", ")), expires]);
    }
    columns::print(&mut stdout().lock(), table, [])
}

/// The file, and its entries. The file is replaced only if nobody has changed it since.
fn read(path: &Path) -> Result<(UserFile, People)> {
    let file = UserFile::read(path)?;
    Ok((file, People::read(path)?))
}

/// Creates the file, readable for its owner only, if there is none.
fn create_private(path: &Path) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot create {}", path.display())),
    }
}

fn from_now(text: &str) -> Result<Timestamp> {
    let duration = parse_duration(text);
    let duration = duration.ok_or_else(|| anyhow!("invalid duration `{text}`; try 30d or 12h"))?;
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Ok(Timestamp::from_unix_ms(now().unix_ms().saturating_add(ms)))
}
