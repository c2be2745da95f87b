//! The endpoint to which traces are sent: a configured URL, or OpenTelemetry's own environment variables.

use url::Url;

use super::Given;

/// Path of the traces endpoint below a collector's URL.
const TRACES: &str = "v1/traces";

/// Checks the URL that traces are posted to. A URL without a path names a collector, and gets the standard path.
pub(super) fn endpoint(text: &str) -> Result<String, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(mut url) = url else {
        return Err("must be a URL such as http://127.0.0.1:4318/v1/traces, or off".to_owned());
    };
    if url.path() == "/" {
        url.set_path(TRACES);
    }
    Ok(url.into())
}

/// Reads the endpoint from the variables of the OpenTelemetry specification: the variable for traces is used
/// unchanged; the path of traces is appended to the variable for all signals.
pub(super) fn of_environment(read: &dyn Fn(&str) -> Option<Given>) -> Option<Given> {
    let says =
        |name: &str, wanted: &str| read(name).is_some_and(|given| given.value.eq_ignore_ascii_case(wanted));
    if says("OTEL_SDK_DISABLED", "true") || says("OTEL_TRACES_EXPORTER", "none") {
        return None;
    }
    if let Some(given) = read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        return Some(given);
    }
    let Given { value, from } = read("OTEL_EXPORTER_OTLP_ENDPOINT")?;
    Some(Given::new(format!("{}/{TRACES}", value.trim_end_matches('/')), from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Provenance;

    fn read(variables: &[(&str, &str)]) -> Option<String> {
        let given = |name: &str| {
            let (name, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some(Given::new(*value, Provenance::Env((*name).to_owned())))
        };
        of_environment(&given).map(|given| given.value)
    }

    #[test]
    fn a_collector_without_a_path_gets_the_usual_one() {
        assert_eq!(endpoint("http://h:4318").unwrap(), "http://h:4318/v1/traces");
        assert_eq!(endpoint("https://h/otlp/traces").unwrap(), "https://h/otlp/traces");
        for text in ["", "h:4318", "grpc://h:4317", "4318"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_standard_variables_say_where_traces_go() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x");
        assert_eq!(read(&[all]).unwrap(), "http://h:4318/v1/traces");
        assert_eq!(read(&[all, traces]).unwrap(), "http://t/x");
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[all, ("OTEL_SDK_DISABLED", "True")]), None);
        assert_eq!(read(&[all, ("OTEL_TRACES_EXPORTER", "none")]), None);
    }
}
