//! Writes SVG documents: texts, lines and shapes, in colours for light and dark screens.

mod log_axis;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt::{self, Display, Write};

pub(crate) use self::log_axis::LogAxis;

const FONTS: &str = "system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif";
/// Maximum characters of a heading within a width of 740 pixels.
const TITLE_CHARACTERS: usize = 84;

/// A colour and its counterpart for dark screens. `Display` writes the attributes that set `currentColor`; programs
/// without support for media queries show the light one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    class: &'static str,
    light: &'static str,
    dark: &'static str,
}

impl Paint {
    pub(crate) const BACKGROUND: Self = Self::new("background", "#ffffff", "#14181d");
    pub(crate) const INK: Self = Self::new("ink", "#1f2933", "#e6e9ed");
    pub(crate) const FAINT: Self = Self::new("faint", "#616e7c", "#9fb0c0");
    pub(crate) const GRID: Self = Self::new("grid", "#e4e7eb", "#2d3640");
    pub(crate) const MARK: Self = Self::new("mark", "#9aa5b1", "#6b7a89");
    pub(crate) const BLUE: Self = Self::new("blue", "#0b69a3", "#5bb3ea");
    pub(crate) const RED: Self = Self::new("red", "#d64545", "#f2817f");
    pub(crate) const GREEN: Self = Self::new("green", "#2f8132", "#7bc47f");
    pub(crate) const AMBER: Self = Self::new("amber", "#b7791f", "#f0b952");
    pub(crate) const PURPLE: Self = Self::new("purple", "#7b4fb5", "#b794f4");

    const ALL: [Self; 10] = [
        Self::BACKGROUND,
        Self::INK,
        Self::FAINT,
        Self::GRID,
        Self::MARK,
        Self::BLUE,
        Self::RED,
        Self::GREEN,
        Self::AMBER,
        Self::PURPLE,
    ];

    const fn new(class: &'static str, light: &'static str, dark: &'static str) -> Self {
        Self { class, light, dark }
    }
}

impl Display for Paint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class=\"{}\" color=\"{}\"", self.class, self.light)
    }
}

/// The anchor of a text: the point that is placed at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextAnchor {
    Start,
    Middle,
    End,
}

impl TextAnchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A rectangle, in pixels from the top left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// An SVG document being written. Writing to a `String` cannot fail.
#[derive(Debug)]
pub(crate) struct SvgDocument(String);

impl SvgDocument {
    /// Begins a document with this size in pixels.
    pub(crate) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self(String::new());
        svg.line(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"{FONTS}\" font-size=\"13\" role=\"img\">"
        ));

        svg.line(&format!("<title>{}</title>", escape(title)));
        let rules = Paint::ALL.map(|paint| format!(".{}{{color:{}}}", paint.class, paint.dark));
        svg.line(&format!("<style>@media (prefers-color-scheme:dark){{{}}}</style>", rules.concat()));
        svg.rect(Area { x: 0.0, y: 0.0, width, height }, Paint::BACKGROUND, "", &[]);

        svg
    }

    /// Draws a title and a subtitle below it.
    pub(crate) fn heading(&mut self, x: f64, title: &str, subtitle: &str) {
        let title = escape(&shorten(title, TITLE_CHARACTERS));
        self.line(&format!(
            "<text x=\"{x}\" y=\"32\" font-size=\"17\" font-weight=\"600\" fill=\"currentColor\" {}>{title}</text>",
            Paint::INK
        ));
        self.text(x, 54.0, TextAnchor::Start, Paint::FAINT, subtitle);
    }

    /// Appends a line without escaping.
    pub(crate) fn line(&mut self, line: &str) {
        let _ = writeln!(self.0, "{line}");
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: TextAnchor, paint: Paint, text: &str) {
        self.explained_text(x, y, anchor, paint, text, &[]);
    }

    /// Draws a text with a tooltip.
    pub(crate) fn explained_text(
        &mut self,
        x: f64,
        y: f64,
        anchor: TextAnchor,
        paint: Paint,
        text: &str,
        tooltip: &[String],
    ) {
        let anchor = anchor.name();
        let text = escape(text);
        let tooltip = title(tooltip);
        self.line(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"currentColor\" \
             {paint}>{tooltip}{text}</text>"
        ));
    }

    /// Draws a text that runs upwards, centred at the position.
    pub(crate) fn upward_text(&mut self, x: f64, y: f64, paint: Paint, text: &str) {
        let text = escape(text);
        self.line(&format!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\" \
             fill=\"currentColor\" {paint}>{text}</text>"
        ));
    }

    /// Draws a line. `more` contains further attributes, after a space.
    pub(crate) fn rule(&mut self, from: (f64, f64), to: (f64, f64), paint: Paint, more: &str) {
        let (x1, y1) = from;
        let (x2, y2) = to;
        self.line(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"currentColor\" \
             {paint}{more}/>"
        ));
    }

    /// Draws a filled rectangle. `more` contains further attributes, after a space.
    pub(crate) fn rect(&mut self, area: Area, paint: Paint, more: &str, tooltip: &[String]) {
        let Area { x, y, width, height } = area;
        let tooltip = title(tooltip);
        self.line(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"currentColor\" \
             {paint}{more}>{tooltip}</rect>"
        ));
    }

    /// Ends the document.
    pub(crate) fn finish(mut self) -> String {
        self.line("</svg>");
        self.0
    }
}

/// Formats a tooltip of several lines; empty if there are no lines.
fn title(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = lines.iter().map(|line| escape(line)).collect();
    format!("<title>{}</title>", lines.join("\n"))
}

/// Truncates a text, ending it with `…`.
pub(crate) fn shorten(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters.saturating_sub(1)).chain(['…']).collect()
}

/// Escapes a text for XML. Characters that XML does not allow become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }

    escaped
}
