//! How the command reads configuration files.

use std::process::Command;

#[test]
fn the_command_uses_a_configuration_and_shows_its_errors() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("one.txt", "=== one\nexpect: quiet\n3x bash make !! error: no rule");
    write("silent.toml", "[providers.course_correction]\nenabled = false");
    write("wrong.toml", "[analysis]\nwindow = 'all'");
    let eval = |config: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_midcourse"));
        let args = ["eval", "one.txt", "--max-false-alarms", "0", "--config", config];
        command.args(args).current_dir(folder.path()).output().unwrap()
    };
    assert!(eval("silent.toml").status.success());
    let wrong = eval("wrong.toml");
    assert_eq!(wrong.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(wrong.stderr).unwrap(), @r#"
    midcourse: wrong.toml:2:10: invalid type: string "all", expected a whole number from 1 to 200
      |
    2 | window = 'all'
      |          ^^^^^
    "#);
    let missing = String::from_utf8(eval("missing.toml").stderr).unwrap();
    assert!(missing.starts_with("midcourse: cannot read missing.toml: "), "{missing}");
}
