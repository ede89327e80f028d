//! Standard output for people: its width, its colours and a pager. The decisions are made here and
//! nowhere else.
//!
//! A pager and the width of the terminal count only if standard output is a terminal. `--color` and
//! the variables NO_COLOR, CLICOLOR and CLICOLOR_FORCE decide about colours.

#[cfg(unix)]
mod pager;

use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write, stdout};

use anstyle::{AnsiColor, Effects, Style};
use clap::ValueEnum;

use crate::display::Tone;

/// The options of commands that print text for people.
#[derive(clap::Args)]
pub(super) struct ScreenArguments {
    /// Use colours; `auto` uses them on a terminal.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColourChoice::Auto)]
    color: ColourChoice,
}

/// The options of commands whose output may be longer than a screen.
#[derive(clap::Args)]
pub(super) struct PagerArguments {
    /// Do not show the output in a pager ($PAGER, or `less`).
    #[arg(long)]
    no_pager: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ColourChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// Standard output, or a pager in front of it.
pub(super) struct Screen {
    output: Output,
    pub(super) painter: Painter,
    /// The columns of the terminal; `None` if the output goes elsewhere, such as to a file.
    pub(super) width: Option<usize>,
}

enum Output {
    Direct(BufWriter<StdoutLock<'static>>),
    #[cfg(unix)]
    Pager(pager::Pager),
}

impl Screen {
    /// Standard output without a pager.
    pub(super) fn direct(arguments: &ScreenArguments) -> Self {
        Self {
            output: Output::Direct(BufWriter::new(stdout().lock())),
            painter: Painter::new(arguments.color),
            width: width(),
        }
    }

    /// Standard output with a pager, if it is a terminal and the user has not switched that off.
    pub(super) fn paged(arguments: &ScreenArguments, pager: &PagerArguments) -> Self {
        let mut screen = Self::direct(arguments);
        #[cfg(unix)]
        if !pager.no_pager
            && stdout().is_terminal()
            && let Some(pager) = pager::Pager::start()
        {
            screen.output = Output::Pager(pager);
        }
        screen
    }

    /// Standard output, with a pager unless the output is for a program.
    pub(super) fn paged_unless(
        is_for_program: bool,
        arguments: &ScreenArguments,
        pager: &PagerArguments,
    ) -> Self {
        match is_for_program {
            true => Self::direct(arguments),
            false => Self::paged(arguments, pager),
        }
    }

    /// Writes the rest, and waits until the user leaves the pager.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.output {
            Output::Direct(out) => out.write(bytes),
            #[cfg(unix)]
            Output::Pager(pager) => pager.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Direct(out) => out.flush(),
            #[cfg(unix)]
            Output::Pager(pager) => pager.flush(),
        }
    }
}

/// The number of columns: from the variable COLUMNS if it is set, otherwise from the terminal;
/// `None` if standard output is not a terminal.
pub(super) fn width() -> Option<usize> {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    if let Some(named) = named.filter(|columns| *columns > 0) {
        return Some(named);
    }
    if !stdout().is_terminal() {
        return None;
    }
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(stdout())
        && size.ws_col > 0
    {
        return Some(usize::from(size.ws_col));
    }
    Some(80)
}

/// Colours texts, or leaves them as they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Painter {
    is_on: bool,
}

impl Painter {
    fn new(choice: ColourChoice) -> Self {
        let is_on = match choice {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => {
                anstream::AutoStream::choice(&stdout()) != anstream::ColorChoice::Never
            }
        };
        Self { is_on }
    }

    /// Colours if standard output is a terminal and the user has not switched them off.
    pub(super) fn automatic() -> Self {
        Self::new(ColourChoice::Auto)
    }

    pub(super) fn paint(self, style: Style, text: &str) -> String {
        match self.is_on && !text.is_empty() {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.paint(Style::new().effects(Effects::BOLD), text)
    }

    /// For what is there to be copied or looked up, not to be read.
    pub(super) fn faint(self, text: &str) -> String {
        self.paint(Style::new().effects(Effects::DIMMED), text)
    }

    pub(super) fn coloured(self, colour: AnsiColor, text: &str) -> String {
        self.paint(Style::new().fg_color(Some(colour.into())), text)
    }

    /// For a word that was searched for.
    pub(super) fn found(self, text: &str) -> String {
        let style = Style::new().fg_color(Some(AnsiColor::Red.into())).effects(Effects::BOLD);
        self.paint(style, text)
    }

    pub(super) fn tone(self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Plain => text.to_owned(),
            Tone::Faint => self.faint(text),
            Tone::Talk => self.coloured(AnsiColor::Cyan, text),
            Tone::Bad => self.coloured(AnsiColor::Red, text),
            Tone::Message => self.coloured(AnsiColor::Yellow, text),
        }
    }
}
