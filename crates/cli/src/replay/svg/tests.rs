//! The picture is well-formed XML, and its parts are in place.

use std::time::Duration;

use super::*;

fn distribution(times_ms: impl IntoIterator<Item = f64>) -> LatencyDistribution {
    let mut distribution = LatencyDistribution::new().unwrap();
    times_ms.into_iter().for_each(|ms| distribution.record(Duration::from_secs_f64(ms / 1e3)));
    distribution
}

/// Checks that elements nest, attributes are quoted and text is escaped; returns all character data.
fn text_of(svg: &str) -> String {
    let mut open = Vec::new();
    let mut text = String::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let (characters, tag) = rest.split_at(start);
        assert!(!characters.contains('>'), "{characters}");

        for (at, _) in characters.match_indices('&') {
            let entity = characters[at + 1..].split(';').next().unwrap();
            assert!(["amp", "lt", "gt", "quot", "apos"].contains(&entity), "{characters}");
        }

        text.push_str(characters);
        let end = tag.find('>').expect("each tag ends");
        let inner = &tag[1..end];
        let after = &tag[end + 1..];
        match inner.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => {
                assert!(inner.matches('"').count().is_multiple_of(2), "{inner}");
                if !inner.ends_with('/') {
                    open.push(inner.split(' ').next().unwrap());
                }
            }
        }

        rest = after;
        if open.is_empty() {
            assert_eq!(rest.trim(), "", "nothing follows the root");
        }
    }

    assert!(open.is_empty(), "{open:?} is not closed");
    text
}

#[test]
fn the_picture_is_well_formed_and_shows_the_figures() {
    let latency = distribution((1..=1000).map(f64::from));
    let svg = draw("Replay", "1000 requests", &[LatencySeries { name: "node".into(), latency: &latency }]);
    let text = text_of(&svg);
    for expected in ["Replay", "1000 requests", "node", "p99", "100%", "latency in ms", "990", "1,000"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(svg.matches("<path").count(), 1);
    assert_eq!(svg.matches("<circle").count(), 3);
}

#[test]
fn names_are_escaped_and_shortened() {
    let latency = distribution([3.0]);
    let name = format!("http://a&b<c>\"d'\u{1b}/{}", "long".repeat(50));
    let svg = draw("<script>", "a & b", &[LatencySeries { name, latency: &latency }]);
    let text = text_of(&svg);
    assert!(text.contains("&lt;script&gt;") && text.contains("a &amp; b"), "{text}");
    assert!(text.contains("http://a&amp;b&lt;c&gt;&quot;d&apos;\u{fffd}/long"), "{text}");
    assert!(text.contains('…') && !svg.contains('\u{1b}'));
}

#[test]
fn nothing_recorded_is_a_row_of_dashes_without_a_curve() {
    let none = distribution([]);
    let some = distribution([5.0, 6.0]);
    let series = [
        LatencySeries { name: "a".into(), latency: &none },
        LatencySeries { name: "b".into(), latency: &some },
    ];

    let svg = draw("t", "s", &series);
    text_of(&svg);
    assert_eq!(svg.matches("<path").count(), 1);
    assert_eq!(svg.matches(">-</text>").count(), 5);
    text_of(&draw("t", "s", &series[..1]));
}

#[test]
fn the_axis_is_as_short_as_the_times_allow() {
    let ends = |times: &[f64]| {
        let axis = LatencyAxis::over(times.iter().copied());
        (axis.marks[0].ms(), axis.marks[axis.marks.len() - 1].ms())
    };

    assert_eq!(ends(&[3.0, 70.0]), (2.0, 100.0));
    assert_eq!(ends(&[5.0, 5.0]), (5.0, 10.0));
    assert_eq!(ends(&[2.0, 50.0]), (2.0, 50.0));
    assert_eq!(ends(&[0.001, 3_600_000.0]), (0.001, 5_000_000.0));
    assert_eq!(ends(&[]), (1.0, 100.0));
}

#[test]
fn marks_are_labelled_as_people_write_numbers() {
    let label = |digit, power| AxisTick { digit, power }.label();
    assert_eq!(label(5, -1), "0.5");
    assert_eq!(label(2, -3), "0.002");
    assert_eq!(label(1, 2), "100");
    assert_eq!(label(2, 3), "2,000");
    assert_eq!(label(5, 6), "5,000,000");
}

#[test]
fn many_points_make_a_path_of_at_most_two_steps_per_pixel() {
    let latency = distribution((0..50_000).map(|i| 1.0 + f64::from(i) * 0.02));
    let svg = draw("t", "s", &[LatencySeries { name: "a".into(), latency: &latency }]);
    assert!(svg.matches('H').count() < 1_600, "{}", svg.matches('H').count());
    assert!(svg.contains(&format!("V{TOP:.1}\"")), "the curve ends at 100%");
}
