//! The files of the page, as they are in `page/`.

use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

use super::responses::Failure;

const INDEX: &str = include_str!("page/index.html");

/// Name and content of each file.
macro_rules! files {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("page/", $name)))),*] };
}

/// The files that the page loads.
const FILES: &[(&str, &str)] = files! {
    "address.js" "ansi.js" "api.js" "app.js" "base.css" "blocks.css" "blocks.js" "compare.css"
    "compare.js" "compare_rows.js" "dom.js" "entry_cache.js" "foreign.js" "format.js"
    "frame_paint.js" "heights.js" "help.js" "json_tree.js" "keys.js" "lane.js" "lane_paint.js"
    "live.js" "long_text.js" "outline.js" "run.css" "run.js" "run_head.js" "run_keys.js"
    "run_picker.js" "run_words.js" "runs.css" "runs.js" "runs_filter.js" "runs_row.js" "search.js"
    "session.js" "sign_in.css" "step_view.js" "steps.js" "summary.js" "time_scale.js" "timeline.js" "timeline_input.js"
    "timeline_panel.js" "tool_kind.js" "types.js" "virtual_list.js" "why.js"
};

/// The page. Its script looks at the address and shows what belongs there.
pub(super) async fn index() -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], INDEX).into_response()
}

/// A file that the page loads.
pub(in crate::commands) async fn file(Path(name): Path<String>) -> Result<Response, Failure> {
    let file = FILES.iter().find(|(known, _)| *known == name);
    let (name, content) = file.ok_or_else(|| Failure::not_found("There is no such file."))?;
    let kind = match name.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    };
    Ok(([(CONTENT_TYPE, kind)], *content).into_response())
}

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn every_file_of_the_page_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/ui/page");
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "index.html");
        names.sort();
        // Without its line in the page, a module is only found when another one imports it, which
        // costs a round trip each.
        let index = include_str!("page/index.html");
        for name in names.iter().filter(|name| name.ends_with(".js") && *name != "types.js") {
            assert!(
                index.contains(&format!("/assets/{name}\"")),
                "index.html does not name {name}"
            );
        }
        let mut embedded: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        embedded.sort_unstable();
        assert_eq!(embedded, names);
    }
}
