//! Sections: the parts of a prompt. Each section is a minijinja template.
//!
//! Sections that use guidance come last, so that the text before them, which the model API may have
//! cached, is the same with and without guidance.

use minijinja::value::{Serde, merge_maps};
use minijinja::{AutoEscape, Environment, Error, Value, context};

use crate::message::{GuidanceInjection, format_guidance};

/// Name of the template variable that contains the guidance.
pub(super) const GUIDANCE: &str = "guidance";

#[derive(Debug, Default)]
pub(super) struct Sections {
    /// `None` until the first section is added, because making an environment takes time. The
    /// engine's own prompt has no sections, and an agent's hooks start a new process for every
    /// event. Each would spend a few per cent of its CPU instructions on an environment it never
    /// uses.
    environment: Option<Environment<'static>>,
    keys: Vec<String>,
    /// Index of the first section that uses guidance; every later section uses guidance too.
    first_guided: Option<usize>,
}

impl Sections {
    /// Adds a section at the end. Returns `false`, and adds nothing, if the section does not use
    /// guidance but an earlier section does.
    pub(super) fn push(&mut self, key: &str, source: &str) -> Result<bool, Error> {
        let environment = self.environment.get_or_insert_with(new_environment);
        environment.add_template_owned(key.to_owned(), source.to_owned())?;
        let template = environment.get_template(key)?;
        if template.undeclared_variables(false).contains(GUIDANCE) {
            self.first_guided.get_or_insert(self.keys.len());
        } else if self.first_guided.is_some() {
            return Ok(false);
        }
        self.keys.push(key.to_owned());
        Ok(true)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    pub(super) fn render(
        &self,
        values: &Value,
        guidance: &[GuidanceInjection],
    ) -> Result<RenderedPrompt, Error> {
        let Some(environment) = &self.environment else {
            let mut rendered = RenderedPrompt::default();
            rendered.append(&format_guidance(guidance));
            return Ok(rendered);
        };
        let contents: Vec<&str> = guidance.iter().map(GuidanceInjection::content).collect();
        let contents = Value::from(Serde(contents));
        let values = if values.is_undefined() {
            context! {}
        } else {
            values.clone()
        };
        // The guidance is merged last, so that a value named `guidance` cannot replace it.
        let values = merge_maps([values, context! { guidance => contents }]);
        let mut rendered = RenderedPrompt::default();
        for (index, key) in self.keys.iter().enumerate() {
            let sees_guidance = self.first_guided.is_some_and(|first| index >= first);
            let text = environment.get_template(key)?.render(values.clone())?;
            rendered.append(text.trim());
            if !sees_guidance {
                rendered.fixed = rendered.text.len();
            }
        }
        if self.first_guided.is_none() {
            rendered.append(&format_guidance(guidance));
        }
        Ok(rendered)
    }
}

fn new_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    // By default, minijinja escapes HTML in a section whose key ends in `.html`. Prompts are
    // plain text.
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment
}

/// The text of a prompt, with values and guidance filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenderedPrompt {
    text: String,
    fixed: usize,
}

impl RenderedPrompt {
    /// The whole text, including guidance.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of all sections that do not use guidance. It is the beginning of the whole text.
    pub fn fixed_part(&self) -> &str {
        self.text.get(..self.fixed).unwrap_or_default()
    }

    /// Appends a section after a blank line. An empty section is skipped.
    fn append(&mut self, section: &str) {
        if section.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(section);
    }
}
