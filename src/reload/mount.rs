//! Mounts that Kubernetes never updates.
//!
//! A volume made from a ConfigMap keeps its files in a dated folder (`..2026_08_01_…`) behind the link `..data`, and an
//! update swaps the link. A `subPath` mount is bound to what stood in the dated folder when the pod started, which the
//! mount table shows: its root has a part that begins with two dots.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Mounts in or at the directory that will never show a change. Empty where there is no mount table.
pub fn frozen(directory: &Path) -> Vec<PathBuf> {
    let Ok(directory) = directory.canonicalize() else { return Vec::new() };
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    frozen_in(&table, &directory)
}

/// The same, of a mount table in the format of proc_pid_mountinfo(5).
fn frozen_in(table: &str, directory: &Path) -> Vec<PathBuf> {
    let frozen = |line: &str| {
        // The table writes a blank in a path as `\040`.
        let mut fields = line.split(' ').skip(3).map(|field| PathBuf::from(field.replace(r"\040", " ")));
        let (root, point) = (fields.next()?, fields.next()?);
        let is_dated = |part: &OsStr| part.to_str().is_some_and(|part| part.len() > 2 && part.starts_with(".."));
        (root.iter().any(is_dated) && point.starts_with(directory)).then_some(point)
    };
    table.lines().filter_map(frozen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
600 590 0:30 / / rw - overlay overlay rw
601 600 8:1 /var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/maps /etc/whole ro - ext4 /dev/sda1 rw
602 600 8:1 /var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/maps/..2026_08_01/a.yaml /etc/sub\\040path/a.yaml ro - ext4 /dev/sda1 rw
603 600 0:70 /..2026_08_01/b.yaml /etc/sub\\040path/b.yaml ro - tmpfs tmpfs rw
604 600 8:1 /home/me/..odd /elsewhere rw - ext4 /dev/sda1 rw
";

    #[test]
    fn a_file_mounted_out_of_a_dated_folder_is_frozen() {
        let found = frozen_in(TABLE, Path::new("/etc/sub path"));
        assert_eq!(found, [PathBuf::from("/etc/sub path/a.yaml"), PathBuf::from("/etc/sub path/b.yaml")]);
    }

    #[test]
    fn a_whole_volume_is_not() {
        assert_eq!(frozen_in(TABLE, Path::new("/etc/whole")), Vec::<PathBuf>::new());
        assert_eq!(frozen_in("nonsense\n", Path::new("/")), Vec::<PathBuf>::new());
    }
}
