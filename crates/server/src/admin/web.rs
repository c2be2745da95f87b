//! The status page: a web application whose files are embedded in the binary and load nothing from other hosts.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::refusal;

/// Allows only the node's own files and answers: no inline script or style, no other site, no frame, no HTML from
/// text.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                           img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                           require-trusted-types-for 'script'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const INDEX: &str = include_str!("web/index.html");

/// Name, content type and text of each file below `web/`.
const FILES: [(&str, &str, &str); 15] = [
    ("app.js", SCRIPT, include_str!("web/app.js")),
    ("api.js", SCRIPT, include_str!("web/api.js")),
    ("browse.js", SCRIPT, include_str!("web/browse.js")),
    ("buckets.js", SCRIPT, include_str!("web/buckets.js")),
    ("chart.js", SCRIPT, include_str!("web/chart.js")),
    ("cluster.js", SCRIPT, include_str!("web/cluster.js")),
    ("elements.js", SCRIPT, include_str!("web/elements.js")),
    ("format.js", SCRIPT, include_str!("web/format.js")),
    ("memory.js", SCRIPT, include_str!("web/memory.js")),
    ("objects.js", SCRIPT, include_str!("web/objects.js")),
    ("overview.js", SCRIPT, include_str!("web/overview.js")),
    ("reads.js", SCRIPT, include_str!("web/reads.js")),
    ("sql.js", SCRIPT, include_str!("web/sql.js")),
    ("style.css", CSS, include_str!("web/style.css")),
    ("icon.svg", SVG, include_str!("web/icon.svg")),
];

/// Answers `GET /`.
pub(super) async fn index() -> Response {
    answer(HTML, INDEX)
}

/// Answers `GET /web/{name}`.
pub(super) async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, content_type, text)) => answer(content_type, text),
        None => refusal(StatusCode::NOT_FOUND, "no such page"),
    }
}

/// Builds an answer that is not cached: a browser must not combine these files with the page of another version.
fn answer(content_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text).into_response()
}
