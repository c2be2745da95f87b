//! Memory available to this process: the limit of its cgroup, or else the machine's memory.

use std::{fs, path::Path};

use stylobate_storage::ByteSize;

/// Memory assumed if the system reports none.
const UNKNOWN: ByteSize = ByteSize::gib(1);

/// Returns the smaller of the machine's memory and the limits of the cgroups that this process is in (version 2 or
/// 1); 1 GiB if the system reports neither.
pub fn available_memory() -> ByteSize {
    available_under(Path::new("/"))
}

fn available_under(root: &Path) -> ByteSize {
    let limits = machine(root).into_iter().chain(cgroups(root));
    limits.min().map_or(UNKNOWN, ByteSize::bytes)
}

/// Reads `MemTotal` of `/proc/meminfo`, which is in KiB.
fn machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the limits of the groups in `/proc/self/cgroup` and of their ancestors: a child's limit may be `max` while
/// its parent's is not.
fn cgroups(root: &Path) -> Vec<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };

        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let limit = fs::read_to_string(root.join(mount).join(group).join(file));
            limits.extend(limit.ok().and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }

    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine_with(files: &[(&str, &str)]) -> ByteSize {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        available_under(root.path())
    }

    const SIXTEEN_GIB: (&str, &str) = ("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");

    #[test]
    fn without_a_cgroup_the_machine_decides() {
        assert_eq!(machine_with(&[SIXTEEN_GIB]), ByteSize::gib(16));
        assert_eq!(machine_with(&[]), UNKNOWN);
    }

    #[test]
    fn the_tightest_cgroup_above_the_process_decides() {
        let limit = machine_with(&[
            SIXTEEN_GIB,
            ("proc/self/cgroup", "0::/pod/container\n"),
            ("sys/fs/cgroup/pod/container/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/memory.max", "2147483648\n"),
        ]);
        assert_eq!(limit, ByteSize::gib(2));
    }

    #[test]
    fn a_container_sees_its_own_cgroup_as_the_root() {
        let files =
            [SIXTEEN_GIB, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "1073741824\n")];
        assert_eq!(machine_with(&files), ByteSize::gib(1));
    }

    #[test]
    fn the_first_version_of_cgroups_says_no_limit_with_a_huge_number() {
        let group = ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/1\n");
        let path = "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes";
        assert_eq!(machine_with(&[SIXTEEN_GIB, group, (path, "9223372036854771712\n")]), ByteSize::gib(16));
        assert_eq!(machine_with(&[SIXTEEN_GIB, group, (path, "536870912\n")]), ByteSize::mib(512));
    }
}
