//! Rendering of prompts: the same input gives the same bytes, and guidance comes last.

use std::collections::HashMap;

use midcourse_core::{GuidanceInjection, Prompt, PromptTemplate};
use serde_json::json;

fn piece(text: &str) -> GuidanceInjection {
    GuidanceInjection::new("k", text).unwrap()
}

fn template() -> PromptTemplate {
    PromptTemplate::new("agent", "main")
        .unwrap()
        .with_section("task", "Task: {{ task }}")
        .unwrap()
        .with_section(
            "files",
            "{% for name, size in files|items %}{{ name }}={{ size }} {% endfor %}",
        )
        .unwrap()
        .with_section("empty", "{% if never %}x{% endif %}")
        .unwrap()
}

#[test]
fn sections_depend_on_values_and_empty_ones_are_left_out() {
    let values = json!({"task": "<fix> it", "files": {"b": 2, "a": 1}});
    let prompt = Prompt::bind(template(), &values).unwrap();
    assert_eq!(prompt.render(&[]).unwrap().text(), "Task: <fix> it\n\na=1 b=2");
    assert_eq!((prompt.ns(), prompt.key(), prompt.name()), ("agent", "main", "agent:main"));
}

#[test]
fn a_hash_map_renders_the_same_every_time() {
    let render = || {
        let files: HashMap<String, usize> = (0..50).map(|n| (format!("f{n}"), n)).collect();
        let prompt = Prompt::bind(template(), &json!({"task": "t", "files": files})).unwrap();
        prompt.render(&[]).unwrap()
    };
    let first = render();
    assert!((0..20).all(|_| render() == first));
}

#[test]
fn guidance_is_appended_at_the_end() {
    let values = json!({"task": "t", "files": {}});
    let prompt = Prompt::bind(template(), &values).unwrap();
    let (without, with) =
        (prompt.render(&[]).unwrap(), prompt.render(&[piece("One."), piece("Two.")]).unwrap());
    assert_eq!(with.text(), format!("{}\n\n[Guidance]\n\nOne.\n\nTwo.", without.text()));
    assert_eq!(with.fixed_part(), without.text());
}

#[test]
fn a_section_can_render_the_guidance_itself() {
    let template = template()
        .with_section(
            "hints",
            "{% if guidance %}Hints:{% for h in guidance %} {{ h }}{% endfor %}{% endif %}",
        )
        .unwrap();
    let prompt = Prompt::bind(template, &json!({"task": "t", "files": {}})).unwrap();
    assert_eq!(prompt.render(&[]).unwrap().text(), "Task: t");
    let with = prompt.render(&[piece("One."), piece("Two.")]).unwrap();
    assert_eq!(with.text(), "Task: t\n\nHints: One. Two.");
    assert_eq!(with.fixed_part(), "Task: t");
}

#[test]
fn a_value_named_guidance_is_not_rendered_as_guidance() {
    let template = PromptTemplate::new("a", "b").unwrap().with_section("s", "{{ text }}").unwrap();
    let values = json!({"text": "{{ guidance }}", "guidance": "mine"});
    let prompt = Prompt::bind(template, &values).unwrap();
    assert_eq!(prompt.render(&[]).unwrap().text(), "{{ guidance }}");
}
