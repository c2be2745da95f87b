//! Scalar settings: selects the strongest layer's text, parses and checks it.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use stylobate_storage::{ByteSize, Consistency, EvictionPolicy, parse_duration, without_credentials};

use super::{
    CacheConfig, FlightConfig, Given, Provenance, ServerConfig, Setting, Sourced, TlsConfig, TlsVersion,
    otlp, print::ConfigReport, source::layer::Layer,
};
use crate::Result;

const PAGE_SIZES: std::ops::RangeInclusive<u64> = ByteSize::kib(64).as_u64()..=ByteSize::mib(16).as_u64();

/// Looks values up, and reports each with its provenance.
pub(super) struct SettingResolver<'a> {
    pub(super) layers: &'a [Layer],
    pub(super) report: &'a mut ConfigReport,
}

impl SettingResolver<'_> {
    /// Returns the strongest layer's text, if any layer has one.
    fn given(&self, setting: Setting) -> Option<&Given> {
        self.layers.iter().rev().find_map(|layer| layer.settings.get(&setting))
    }

    fn sourced<T, E: std::fmt::Display>(
        &self,
        setting: Setting,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Sourced<T>> {
        match self.given(setting) {
            Some(given) => given.parse(setting.key(), parse),
            None => Ok(Sourced { value: default, from: Provenance::Default }),
        }
    }

    /// Resolves a setting that prints as a quoted text.
    fn text<T: ToString, E: std::fmt::Display>(
        &mut self,
        setting: Setting,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T> {
        let value = self.sourced(setting, default, parse)?;
        self.report.text(setting, &value.value.to_string(), &value.from);
        Ok(value.value)
    }

    /// Resolves a setting that prints as a bare number.
    fn number<T: ToString, E: std::fmt::Display>(
        &mut self,
        setting: Setting,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T> {
        let value = self.sourced(setting, default, parse)?;
        self.report.bare(setting, value.value.to_string(), &value.from);
        Ok(value.value)
    }

    /// Resolves a setting that is a duration.
    fn duration(&mut self, setting: Setting, default: Duration) -> Result<Duration> {
        let value = self.sourced(setting, default, |text| {
            let time = parse_duration(text).filter(|time| !time.is_zero());
            time.ok_or_else(|| format!("{text:?} is not a time: write 500ms, 30s, 5m or 1h"))
        })?;
        self.report.text(setting, &Consistency::Ttl(value.value).to_string(), &value.from);
        Ok(value.value)
    }

    /// Resolves the table `[server]`.
    pub(super) fn server(&mut self) -> Result<ServerConfig> {
        let default = ServerConfig::default();
        let server = ServerConfig {
            listen: self.text(Setting::Listen, default.listen, address)?,
            admin: self.text(Setting::Admin, default.admin, address)?,
            flight: self.flight(default.flight)?,
            domains: self.domains()?,
            region: self.text(Setting::Region, default.region, region)?,
            max_connections: self.number(Setting::MaxConnections, default.max_connections, |text| {
                whole_number(text, 1..=1_000_000).map(|count| count as usize)
            })?,
            drain_timeout: self.duration(Setting::DrainTimeout, default.drain_timeout)?,
            tls: self.tls()?,
            access_log: self.boolean(Setting::AccessLog)?,
            log: self.text(Setting::Log, default.log, |text| Ok::<_, String>(text.to_owned()))?,
            log_format: self.text(Setting::LogFormat, default.log_format, str::parse)?,
            otlp_endpoint: self.otlp_endpoint()?,
            read_ahead: self.text(Setting::ReadAhead, default.read_ahead, str::parse)?,
            max_fetch: self.text(Setting::MaxFetch, default.max_fetch, str::parse)?,
            attempts: self.number(Setting::Attempts, default.attempts, |text| {
                whole_number(text, 1..=100).map(|count| count as u32)
            })?,
            backoff: self.duration(Setting::Backoff, default.backoff)?,
            deadline: self.duration(Setting::Deadline, default.deadline)?,
            hedge: self.hedge()?,
        };
        self.check_doors(&server)?;

        Ok(server)
    }

    /// Checks that no two doors listen at the same address.
    fn check_doors(&self, server: &ServerConfig) -> Result<()> {
        let doors = [
            (Setting::Listen, Some(server.listen)),
            (Setting::Admin, Some(server.admin)),
            (Setting::Flight, server.flight),
        ];
        for (n, (door, address)) in doors.iter().enumerate() {
            let Some(address) = address.filter(|address| address.port() != 0) else { continue };
            let Some((other, _)) = doors.iter().take(n).find(|(_, other)| *other == Some(address)) else {
                continue;
            };
            let place = self.given(*door).or(self.given(*other));
            let from = place.map_or(Provenance::Default, |given| given.from.clone());
            return from.error(format!("{other} and {door} are both {address}: each door needs its own"));
        }

        Ok(())
    }

    /// Resolves the table `[cache]`.
    pub(super) fn cache(&mut self) -> Result<CacheConfig> {
        let default = CacheConfig::default();
        let memory = self.text(Setting::Memory, default.memory, str::parse)?;
        let (disk, disk_capacity) = self.disk()?;
        let policy = self.text(Setting::Policy, default.policy, str::parse::<EvictionPolicy>)?;
        let page_size = self.text(Setting::PageSize, default.page_size, page_size)?;
        let max_fetch =
            self.sourced(Setting::MaxFetch, ServerConfig::default().max_fetch, str::parse::<ByteSize>)?;
        if max_fetch.value < page_size {
            let place = self.given(Setting::PageSize).map_or(&max_fetch.from, |given| &given.from);
            let max_fetch = max_fetch.value;
            return place
                .error(format!("max_fetch is {max_fetch}, less than one page of {page_size}: raise it"));
        }

        Ok(CacheConfig { memory, disk, disk_capacity, policy, page_size })
    }

    /// Resolves the lifetime of the Flight door's tickets.
    pub(super) fn ticket_lifetime(&mut self) -> Result<Duration> {
        self.duration(Setting::TicketLifetime, FlightConfig::TICKET_LIFETIME)
    }

    fn flight(&mut self, default: Option<SocketAddr>) -> Result<Option<SocketAddr>> {
        let flight = self.sourced(Setting::Flight, default, |text| match text {
            "off" | "none" => Ok(None),
            _ => address(text).map(Some),
        })?;
        let shown = flight.value.map_or_else(|| "off".to_owned(), |address| address.to_string());
        self.report.text(Setting::Flight, &shown, &flight.from);
        Ok(flight.value)
    }

    /// Resolves the endpoint of traces. The URL may hold a password.
    fn otlp_endpoint(&mut self) -> Result<Option<String>> {
        let endpoint = self.sourced(Setting::OtlpEndpoint, None, |text| match text {
            "off" => Ok(None),
            _ => otlp::endpoint(text).map(Some),
        })?;
        match &endpoint.value {
            Some(url) => self.report.text(Setting::OtlpEndpoint, &without_credentials(url), &endpoint.from),
            None => self.report.text(Setting::OtlpEndpoint, "off", &endpoint.from),
        }
        Ok(endpoint.value)
    }

    /// Resolves the certificate and its key, which must be set together.
    fn tls(&mut self) -> Result<Option<TlsConfig>> {
        let mut file = |setting: Setting| {
            let file = self.sourced(setting, None, |text| match text {
                "" => Err("write the path of a file in PEM"),
                path => Ok(Some(PathBuf::from(path))),
            })?;
            match &file.value {
                Some(path) => self.report.text(setting, &path.to_string_lossy(), &file.from),
                None => self.report.comment(setting, "none: no TLS", &file.from),
            }
            Ok::<_, crate::ServerError>(file)
        };

        let certificate = file(Setting::TlsCertificate)?;
        let key = file(Setting::TlsKey)?;
        let min_version = self.text(Setting::TlsMinVersion, TlsVersion::default(), str::parse)?;
        match (certificate.value, key.value) {
            (Some(certificate), Some(key)) => Ok(Some(TlsConfig { certificate, key, min_version })),
            (None, None) => Ok(None),
            (Some(_), None) => {
                certificate.from.error("tls_certificate: give its private key too, as tls_key")
            }
            (None, Some(_)) => key.from.error("tls_key: give its certificate too, as tls_certificate"),
        }
    }

    /// Resolves a boolean setting, false by default.
    fn boolean(&mut self, setting: Setting) -> Result<bool> {
        let value = self.sourced(setting, false, |text| {
            text.parse().map_err(|_| format!("must be true or false, not {text:?}"))
        })?;
        self.report.bare(setting, value.value.to_string(), &value.from);
        Ok(value.value)
    }

    fn domains(&mut self) -> Result<Vec<String>> {
        let domains = self.sourced(Setting::Domains, Vec::new(), |text| {
            let domains = text.split(',').map(str::trim).filter(|domain| !domain.is_empty());
            domains.map(|domain| host(domain).map(|()| domain.to_ascii_lowercase())).collect::<Result<_, _>>()
        })?;
        self.report.list(Setting::Domains, &domains.value, &domains.from);
        Ok(domains.value)
    }

    fn hedge(&mut self) -> Result<Option<f64>> {
        let hedge = self.sourced(Setting::Hedge, None, |text| match text.parse::<f64>() {
            _ if text == "off" => Ok(None),
            Ok(quantile) if (0.5..1.0).contains(&quantile) => Ok(Some(quantile)),
            _ => Err(format!("{text:?} is not a quantile: write 0.5 to 0.999, such as 0.95, or off")),
        })?;
        match hedge.value {
            Some(quantile) => self.report.bare(Setting::Hedge, quantile.to_string(), &hedge.from),
            None => self.report.text(Setting::Hedge, "off", &hedge.from),
        }
        Ok(hedge.value)
    }

    /// Resolves the folder and its capacity, which may be written as one: `FOLDER=SIZE`. The stronger layer's size
    /// wins.
    fn disk(&mut self) -> Result<(Option<PathBuf>, ByteSize)> {
        let mut capacity = self.sourced(Setting::DiskCapacity, CacheConfig::DISK_CAPACITY, str::parse)?;
        let Sourced { value, from } =
            self.sourced(Setting::Disk, None, |text| folder_and_size(text).map(Some))?;
        let folder = value.map(|(folder, size)| {
            if let Some(size) = size.filter(|_| from.rank() >= capacity.from.rank()) {
                capacity = Sourced { value: size, from: from.clone() };
            }
            folder
        });

        match &folder {
            Some(folder) => self.report.text(Setting::Disk, &folder.to_string_lossy(), &from),
            None => self.report.comment(Setting::Disk, "none: memory only", &from),
        }
        self.report.text(Setting::DiskCapacity, &capacity.value.to_string(), &capacity.from);
        Ok((folder, capacity.value))
    }

    /// Resolves the setting that makes all buckets refuse writes.
    pub(super) fn read_only(&mut self) -> Result<Sourced<bool>> {
        let read_only = self.sourced(Setting::ReadOnly, false, |text| {
            text.parse().map_err(|_| format!("must be true or false, not {text:?}"))
        })?;
        self.report.bare(Setting::ReadOnly, read_only.value.to_string(), &read_only.from);
        Ok(read_only)
    }

    /// Resolves the default consistency of buckets.
    pub(super) fn consistency(&mut self) -> Result<Sourced<Consistency>> {
        let consistency = self.sourced(Setting::Consistency, Consistency::DEFAULT, str::parse)?;
        self.report.text(Setting::Consistency, &consistency.value.to_string(), &consistency.from);
        Ok(consistency)
    }
}

/// Parses `127.0.0.1:9000`, `[::1]:9000` or `localhost:9000`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let spelled = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    spelled.parse().map_err(|_| {
        format!(
            "{text:?} is not an address and a port: write 127.0.0.1:9000, or 0.0.0.0:9000 for all interfaces"
        )
    })
}

/// Parses `FOLDER=SIZE` or `FOLDER`, whose name may have an `=`: only text that parses as a size is one.
fn folder_and_size(text: &str) -> Result<(PathBuf, Option<ByteSize>), String> {
    let parts = text.rsplit_once('=').and_then(|(folder, size)| Some((folder, size.parse().ok()?)));
    let (folder, size) = parts.map_or((text, None), |(folder, size)| (folder, Some(size)));
    if folder.is_empty() {
        return Err("write FOLDER or FOLDER=SIZE, such as /var/cache/stylobate=100GiB".to_owned());
    }
    Ok((folder.into(), size))
}

fn page_size(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    if PAGE_SIZES.contains(&size.as_u64()) && size.as_u64().is_power_of_two() {
        return Ok(size);
    }
    Err(format!("{size} cannot be the size of a page: use a power of two from 64KiB to 16MiB"))
}

fn whole_number(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let number = text.replace('_', "").parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from {} to {}", range.start(), range.end()))
}

fn region(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    fits.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is not a region, such as us-east-1"))
}

fn host(domain: &str) -> Result<(), String> {
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    let (name, port) = domain.split_once(':').unwrap_or((domain, "0"));
    let fits = name.split('.').all(label) && port.parse::<u16>().is_ok();
    if fits { Ok(()) } else { Err(format!("{domain:?} is not a domain, such as s3.example.org")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_say_localhost_and_must_have_a_port() {
        assert_eq!(address("localhost:9"), Ok("127.0.0.1:9".parse().unwrap()));
        assert_eq!(address("[::1]:9"), Ok("[::1]:9".parse().unwrap()));
        for text in ["", "9000", ":9000", "127.0.0.1", "host:9000", "1.2.3.4:99999"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_after_the_folder_is_its_capacity() {
        assert_eq!(folder_and_size("/c=1GiB"), Ok(("/c".into(), Some(ByteSize::gib(1)))));
        assert_eq!(folder_and_size("/a=b/c"), Ok(("/a=b/c".into(), None)));
        assert_eq!(folder_and_size("/a=b=2MB"), Ok(("/a=b".into(), Some(ByteSize::bytes(2_000_000)))));
        assert_eq!(folder_and_size("/c"), Ok(("/c".into(), None)));
        assert!(folder_and_size("=1GiB").is_err());
    }

    #[test]
    fn a_page_is_a_power_of_two_from_64_kib_to_16_mib() {
        for text in ["64KiB", "1MiB", "16MiB", "131072"] {
            assert!(page_size(text).is_ok(), "{text}");
        }
        for text in ["0", "32KiB", "32MiB", "100KiB", "1MB", "x"] {
            assert!(page_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_domain_has_labels_and_perhaps_a_port() {
        for text in ["s3.example.org", "localhost", "localhost:9000"] {
            assert!(host(text).is_ok(), "{text}");
        }
        for text in ["", "a..b", "http://a", "a:b", "a/b"] {
            assert!(host(text).is_err(), "{text}");
        }
    }
}
