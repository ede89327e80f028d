//! Tests of `midcourse serve` as a process: signing in, what each person sees, who else may ask, and
//! where it listens. `tests/browser` has the same in a browser.

mod listening;
mod server;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use crate::events::{TempStore, user_message};
use server::{Server, Team, percent_encoded};

/// A team with two projects, each with the run `r`.
fn team() -> (Team, TempStore, TempStore) {
    let (web, infra) = (TempStore::new(), TempStore::new());
    web.open().append(user_message("r", "Fix the form")).unwrap();
    let mut store = infra.open();
    store.append(user_message("r", "Rotate the keys")).unwrap();
    store.append(user_message("only-infra", "Rotate the certificates")).unwrap();
    let team = Team::new(&[("web", &web), ("infra", &infra)]);
    (team, web, infra)
}

#[test]
fn a_person_signs_in_with_a_token_and_out_again() {
    let (team, _web, _infra) = team();
    let token = team.add("ada", &["web"]);
    let server = Server::start(&team, &[]);

    for path in ["/", "/p/web/", "/p/web/run/r/0?x=1", "/p/none/", "/none"] {
        let reply = server.get(path, &[]);
        assert_eq!(reply.status, 303, "{path}");
        let location = reply.header("location").unwrap().to_owned();
        assert!(location.starts_with("/sign-in"), "{location}");
    }
    let reply = server.get("/p/web/run/r/0?x=1", &[]);
    assert_eq!(reply.header("location"), Some("/sign-in?next=%2Fp%2Fweb%2Frun%2Fr%2F0%3Fx%3D1"));
    let reply = server.get("/p/web/api/runs", &[]);
    assert_eq!(reply.status, 401);
    assert!(!reply.body.contains("Fix the form"), "{}", reply.body);

    let form = server.get("/sign-in?next=%2Fp%2Fweb%2F", &[]);
    assert_eq!(form.status, 200);
    assert!(form.body.contains("name=\"next\" value=\"/p/web/\""), "{}", form.body);
    let policy = form.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none';") && policy.contains("form-action 'self'"));

    let wrong = format!("midcourse_{}", "0".repeat(64));
    for wrong in ["", "x", &wrong, &token.to_uppercase()] {
        let reply = server.sign_in(wrong);
        assert_eq!(reply.status, 401, "{wrong}");
        assert!(reply.header("set-cookie").is_none());
        assert!(wrong.is_empty() || wrong == "x" || !reply.body.contains(wrong), "{}", reply.body);
    }
    // A token in the address is worth nothing.
    let reply = server.get(&format!("/sign-in?token={token}"), &[]);
    assert!(reply.header("set-cookie").is_none() && reply.status == 200);

    let reply = server.post("/sign-in", &format!("token={token}&next=%2Fp%2Fweb%2Frun%2Fr"), &[]);
    assert_eq!((reply.status, reply.header("location")), (303, Some("/p/web/run/r")));
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Max-Age=43200"), "{cookie}");
    assert!(cookie.contains("; Path=/") && !cookie.contains("Secure") && !cookie.contains(&token));
    let session = format!("cookie: {}", reply.session());

    // With one project, the start leads there.
    let start = server.get("/", &[&session]);
    assert_eq!((start.status, start.header("location")), (303, Some("/p/web/")));
    for path in ["/p/web/", "/p/web/run/r", "/p/web/run/r/0", "/p/web/compare/r/r"] {
        let page = server.get(path, &[&session]);
        assert_eq!(page.status, 200, "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("require-trusted-types-for 'script'"), "{policy}");
        assert!(policy.contains("form-action 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    let about = server.get("/p/web/api/session", &[&session]).json();
    let expected =
        serde_json::json!({"project": "web", "person": "ada", "has_other_projects": false});
    assert_eq!(about, expected);
    let runs = server.get("/p/web/api/runs", &[&session]).json();
    assert_eq!((&runs["total"], &runs["runs"][0]["task"]), (&1.into(), &"Fix the form".into()));

    let reply = server.post("/sign-out", "", &[&session]);
    assert_eq!((reply.status, reply.header("location")), (303, Some("/sign-in")));
    assert!(reply.header("set-cookie").unwrap().contains("; Max-Age=0"));
    assert_eq!(server.get("/p/web/api/runs", &[&session]).status, 401);

    let log = server.stop();
    assert!(log.contains("ada signed in from 127.0.0.1"), "{log}");
    assert!(log.contains("failed: the token is not valid"), "{log}");
    assert!(!log.contains("midcourse_"), "{log}");
}

#[test]
fn nobody_is_sent_elsewhere_after_signing_in() {
    let (team, _web, _infra) = team();
    let token = team.add("ada", &["web"]);
    let server = Server::start(&team, &[]);
    for next in ["https://x.example/", "//x.example", "/\\x.example", "javascript:alert(1)"] {
        let form = format!("token={token}&next={}", percent_encoded(next));
        let reply = server.post("/sign-in", &form, &[]);
        assert_eq!((reply.status, reply.header("location")), (303, Some("/")), "{next}");
    }
    let reply = server.get("/sign-in?next=%22%3E%3Cscript%3E", &[]);
    assert!(!reply.body.contains("<script"), "{}", reply.body);
}

#[test]
fn a_person_who_is_removed_is_out_at_once() {
    let (team, _web, _infra) = team();
    let (ada, bob) = (team.add("ada", &["*"]), team.add("bob", &["web"]));
    let server = Server::start(&team, &[]);
    let (ada, bob) = (server.session(&ada), server.session(&bob));

    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let request = server::head("GET", "/p/web/api/events", "localhost", &[&ada]);
    stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
    let mut events = BufReader::new(stream);
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert_ne!(events.read_line(&mut line).unwrap(), 0, "the stream ended");
    }

    team.run(&["remove", "ada"]);
    assert_eq!(server.get("/p/web/api/runs", &[&ada]).status, 401);
    assert_eq!(server.get("/p/web/api/runs", &[&bob]).status, 200);
    let mut rest = String::new();
    events.get_ref().set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    // The server ends the stream.
    events.read_to_string(&mut rest).unwrap();

    // Another token is another session, and other projects apply without a new one.
    team.run(&["add", "bob", "--project", "infra", "--replace"]);
    assert_eq!(server.get("/p/web/api/runs", &[&bob]).status, 401);
}

#[test]
fn a_token_ends_when_it_expires() {
    let (team, _web, _infra) = team();
    let token = team.run(&["add", "ada", "--project", "web", "--expires", "1s"]);
    let server = Server::start(&team, &[]);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert_eq!(server.sign_in(token.trim()).status, 401);
    assert!(team.run(&["people"]).contains("(over)"));
}

#[test]
fn a_project_one_may_not_see_looks_like_none() {
    let (team, _web, _infra) = team();
    let (ada, bob) = (team.add("ada", &["web"]), team.add("bob", &["web", "infra"]));
    let server = Server::start(&team, &[]);
    let (ada, bob) = (server.session(&ada), server.session(&bob));
    let same = |path: &str, other: &str| {
        let (one, none) = (server.get(path, &[&ada]), server.get(other, &[&ada]));
        let head = |reply: &crate::ui::Reply| {
            let lines = reply.head.lines().filter(|line| !line.starts_with("date"));
            lines.map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        assert_eq!((one.status, head(&one), &one.body), (404, head(&none), &none.body), "{path}");
    };
    for rest in [
        "",
        "/",
        "/run/r",
        "/api/runs",
        "/api/session",
        "/api/runs/r",
        "/api/runs/only-infra/outline",
        "/api/runs/r/report.html",
        "/api/search?words=rotate",
        "/api/events",
        "/assets/app.js",
        "/api/compare?a=r&b=only-infra",
    ] {
        same(&format!("/p/infra{rest}"), &format!("/p/none{rest}"));
    }
    for path in [
        "/p/web/../infra/api/runs",
        "/p/web%2F..%2Finfra/api/runs",
        "/p/%69nfra/api/runs",
        "/p/~infra/api/runs",
        "/p//api/runs",
        "/p/web/p/infra/api/runs",
        "/api/runs",
        "/run/r",
    ] {
        let reply = server.get(path, &[&ada]);
        assert_eq!(reply.status, 404, "{path}: {}", reply.body);
        assert!(!reply.body.contains("Rotate"), "{path}");
    }
    // The run of another project is not there, and one of the same name is the own one.
    assert_eq!(server.get("/p/web/api/runs/only-infra", &[&ada]).status, 404);
    assert_eq!(server.get("/p/web/api/runs/only-infra/entries/0", &[&ada]).status, 404);
    let run = server.get("/p/web/api/runs/r", &[&ada]).json();
    assert_eq!(run["run"]["task"], "Fix the form");
    let found = server.get("/p/web/api/search?words=rotate", &[&ada]).json();
    assert_eq!(found["hits"], serde_json::json!([]));

    let chooser = server.get("/", &[&bob]);
    assert_eq!(chooser.status, 200);
    assert!(chooser.body.contains("href=\"/p/infra/\"") && chooser.body.contains("/p/web/"));
    let run = server.get("/p/infra/api/runs/r", &[&bob]).json();
    assert_eq!(run["run"]["task"], "Rotate the keys");
}

#[test]
fn requests_that_other_sites_cause_are_refused() {
    let (team, _web, _infra) = team();
    let token = team.add("ada", &["web"]);
    let server = Server::start(&team, &[]);
    let session = server.session(&token);
    let own = format!("origin: http://127.0.0.1:{}", server.port);
    let form = format!("token={token}");
    for lines in [
        &[][..],
        &["origin: http://x.example"],
        &["origin: null"],
        &["sec-fetch-site: cross-site", own.as_str()],
        &["sec-fetch-site: same-site"],
        &["sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"],
    ] {
        for path in ["/sign-in", "/sign-out"] {
            let all: Vec<&str> = lines.iter().copied().chain([session.as_str()]).collect();
            let reply = server.post_exactly(path, &form, &all);
            assert_eq!(reply.status, 403, "{path} {lines:?}");
            assert!(reply.header("set-cookie").is_none());
        }
    }
    assert_eq!(server.get("/p/web/api/runs", &[&session]).status, 200, "still signed in");
    let get = |lines: &[&str]| {
        let all: Vec<&str> = lines.iter().copied().chain([session.as_str()]).collect();
        server.get("/p/web/api/runs", &all).status
    };
    assert_eq!(get(&["sec-fetch-site: cross-site"]), 403);
    assert_eq!(get(&["origin: http://x.example"]), 403);
    assert_eq!(server.get_at("x.example", "/p/web/api/runs", &[&session]).status, 421);
    assert_eq!(server.post("/p/web/api/runs", "", &[&session]).status, 405);

    // A link on another site comes without the cookie. The page loads itself again, with it.
    let link =
        ["sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"];
    let reply = server.get("/p/web/run/r'%22%3Cb", &link);
    assert_eq!(reply.status, 200);
    assert!(reply.body.contains("content=\"0;url='/p/web/run/r%27%22%3Cb'\""), "{}", reply.body);
}

#[test]
fn failed_attempts_are_limited_and_lock_nobody_out() {
    let (team, _web, _infra) = team();
    let token = team.add("ada", &["web"]);
    let server = Server::start(&team, &[]);
    let statuses: Vec<u16> = (0..12).map(|_| server.sign_in("wrong").status).collect();
    assert_eq!(statuses, [[401; 10].as_slice(), &[429; 2]].concat());
    let reply = server.sign_in("wrong");
    assert!(reply.header("retry-after").unwrap().parse::<u64>().unwrap() <= 60);
    assert_eq!(server.sign_in(&token).status, 303);
    let huge = server.sign_in(&"x".repeat(20_000));
    assert_eq!(huge.status, 400);
    let log = server.stop();
    assert_eq!(log.matches("failed").count(), 10, "{log}");
}

#[test]
fn hostile_names_and_texts_stay_text() {
    let hostile = "<img src=x onerror=alert(1)>\"'&";
    let store = TempStore::new();
    let mut open = store.open();
    open.append(user_message(hostile, "</script><script>attacked=1</script>")).unwrap();
    drop(open);
    let team = Team::new(&[(hostile, &store), ("b", &store)]);
    let token = team.add(hostile, &["*"]);
    let server = Server::start(&team, &[]);
    let session = server.session(&token);
    let chooser = server.get("/", &[&session]);
    assert!(!chooser.body.contains("<img"), "{}", chooser.body);
    let href = chooser.body.split("href=\"").find(|part| part.starts_with("/p/%3C")).unwrap();
    let base = href.split('"').next().unwrap();
    let about = server.get(&format!("{base}api/session"), &[&session]);
    assert_eq!(about.header("content-type"), Some("application/json"));
    assert_eq!(
        (&about.json()["project"], &about.json()["person"]),
        (&hostile.into(), &hostile.into())
    );
    let page = server.get(&format!("{base}run/{}", percent_encoded(hostile)), &[&session]);
    assert_eq!(page.status, 200);
    assert!(!page.body.contains("attacked") && !page.body.contains("<img"), "{}", page.body);
    let run = server.get(&format!("{base}api/runs/{}", percent_encoded(hostile)), &[&session]);
    assert_eq!(run.header("content-type"), Some("application/json"));
    assert_eq!(run.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(run.json()["run"]["run_id"], hostile);
}
