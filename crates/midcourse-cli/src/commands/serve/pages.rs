//! The pages around the viewer: signing in, choosing a project, and sentences for what does not
//! work. They have no script.

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};

use super::projects::address;
use super::rules::Refusal;
use crate::commands::report::html::escaped;

/// Forms go to this server only. Nothing else is loaded but style sheets.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; \
     base-uri 'none'; frame-ancestors 'none'";

/// Why a person is asked to sign in once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    WrongToken,
    TooManyAttempts,
    Incomplete,
}

impl Problem {
    const fn text(self) -> &'static str {
        match self {
            Self::WrongToken => {
                "This token is not valid. It may have been replaced, or have expired."
            }
            Self::TooManyAttempts => "Too many failed attempts. Wait a minute, then try again.",
            Self::Incomplete => "The form arrived incomplete. Try again.",
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::TooManyAttempts => StatusCode::TOO_MANY_REQUESTS,
            Self::Incomplete => StatusCode::BAD_REQUEST,
        }
    }
}

/// The form for a token. `next` is the address to go to afterwards.
pub(super) fn sign_in(next: &str, problem: Option<Problem>) -> Response {
    let status = problem.map_or(StatusCode::OK, Problem::status);
    let problem = problem.map(|problem| {
        format!("<p class=\"problem\" role=\"alert\" id=\"problem\">{}</p>", problem.text())
    });
    let content = format!(
        "<h1><span class=\"brand-mark\" aria-hidden=\"true\"></span>midcourse</h1>{}\
         <form method=\"post\" action=\"/sign-in\">\
         <input type=\"hidden\" name=\"next\" value=\"{}\">\
         <label for=\"token\">Your token</label>\
         <input id=\"token\" name=\"token\" type=\"password\" required autofocus \
         autocomplete=\"current-password\" spellcheck=\"false\"{}>\
         <button class=\"primary\">Sign in</button></form>\
         <p class=\"quiet\">You get a token from the person who runs this server.</p>",
        problem.as_deref().unwrap_or_default(),
        escaped(next),
        if problem.is_some() { " aria-invalid=\"true\" aria-describedby=\"problem\"" } else { "" },
    );
    page(status, "Sign in", &content)
}

/// The list of projects to choose from.
pub(super) fn choose(person: &str, projects: &[String]) -> Response {
    let list = match projects {
        [] => "<p>There is no project that you may see. Ask the person who runs this server.</p>"
            .to_owned(),
        projects => {
            let items = projects.iter().map(|name| {
                format!("<li><a href=\"{}\">{}</a></li>", escaped(&address(name)), escaped(name))
            });
            format!("<ul class=\"gate-projects\">{}</ul>", items.collect::<String>())
        }
    };
    let content = format!(
        "<h1><span class=\"brand-mark\" aria-hidden=\"true\"></span>Projects</h1>{list}\
         <div class=\"gate-foot\"><p class=\"quiet\">Signed in as {}</p>\
         <form method=\"post\" action=\"/sign-out\"><button>Sign out</button></form></div>",
        escaped(person)
    );
    page(StatusCode::OK, "Projects", &content)
}

/// The response for every page that does not exist, or that the person may not see.
pub(super) fn not_found() -> Response {
    let content = "<h1>Not found</h1><p>There is no such page, or you may not see it.</p>\
                   <p><a href=\"/\">Your projects</a></p>";
    page(StatusCode::NOT_FOUND, "Not found", content)
}

/// The response while the people file cannot be used, or no session can be made.
pub(super) fn unavailable() -> Response {
    let content = "<h1>Not available</h1><p>Nobody can sign in at the moment. The log of the server \
                   says why.</p>";
    page(StatusCode::SERVICE_UNAVAILABLE, "Not available", content)
}

/// Loads the same page again. After a link on another site, browsers leave out the cookie of the
/// session; they send it with the second request, because our own page causes that one.
pub(super) fn again(path: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>midcourse</title>\
         <meta http-equiv=\"refresh\" content=\"0;url='{}'\">",
        escaped(&path.replace('\'', "%27"))
    );
    respond(StatusCode::OK, html)
}

pub(super) fn refused(refusal: Refusal) -> Response {
    let (status, text) = match refusal {
        Refusal::Host => (
            StatusCode::MISDIRECTED_REQUEST,
            "This server is not known by this name. If it should be, start it with \
             <code>--host NAME</code>.",
        ),
        Refusal::NotTls => (
            StatusCode::FORBIDDEN,
            "This server is for HTTPS only. If you came over HTTPS, the proxy in front of it has to \
             set <code>X-Forwarded-Proto</code>.",
        ),
        Refusal::OtherSite => (
            StatusCode::FORBIDDEN,
            "Another site caused this request. Open the page by its address instead.",
        ),
    };
    page(status, "Refused", &format!("<h1>Refused</h1><p>{text}</p>"))
}

fn page(status: StatusCode, title: &str, content: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title} · midcourse</title><link rel=\"icon\" href=\"data:,\">\
         <link rel=\"stylesheet\" href=\"/assets/base.css\">\
         <link rel=\"stylesheet\" href=\"/assets/sign_in.css\"></head>\
         <body><main class=\"gate\">{content}</main></body></html>"
    );
    respond(status, html)
}

fn respond(status: StatusCode, html: String) -> Response {
    let headers: [(HeaderName, HeaderValue); 3] = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        // With `no-referrer`, browsers send forms with the origin `null`.
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    ];
    (status, headers, html).into_response()
}
