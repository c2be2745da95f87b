//! Checks that the picture is well-formed XML and has its parts in place.

use std::time::Duration;

use super::*;
use crate::svg::tests::text_of;

fn distribution(times_ms: impl IntoIterator<Item = f64>) -> LatencyDistribution {
    let mut distribution = LatencyDistribution::new().unwrap();
    times_ms.into_iter().for_each(|ms| distribution.record(Duration::from_secs_f64(ms / 1e3)));
    distribution
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
    assert_eq!(svg.matches("r=\"4.5\"").count(), 3);
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
fn many_points_make_a_path_of_at_most_two_steps_per_pixel() {
    let latency = distribution((0..50_000).map(|i| 1.0 + f64::from(i) * 0.02));
    let svg = draw("t", "s", &[LatencySeries { name: "a".into(), latency: &latency }]);
    assert!(svg.matches('H').count() < 1_600, "{}", svg.matches('H').count());
    assert!(svg.contains(&format!("V{TOP:.1}\"")), "the curve ends at 100%");
}
