//! Links between the pages lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

use super::fields::anchor;
use super::{files, read, root};

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    let pages = pages();
    assert!(pages.len() > 30, "{}", pages.len());
    for page in &pages {
        let text = read(page);
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                root().join(page)
            } else {
                root().join(page).parent().expect("a folder").join(path)
            };
            let stands = target.exists() && (anchor.is_empty() || anchors(&target).iter().any(|known| known == anchor));
            if !stands {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_index_names_every_page() {
    let index = read("docs/README.md");
    let pages = pages();
    for name in pages.iter().filter_map(|page| page.strip_prefix("docs").ok()) {
        let name = name.to_string_lossy();
        assert!(name == "README.md" || index.contains(&format!("]({name})")), "docs/README.md lacks {name}");
    }
    assert!(read("README.md").contains("](docs/README.md)"), "README.md leads to the documentation");
}

/// The pages at the top, those under `docs/`, those of the examples, and the one about the tests.
fn pages() -> Vec<PathBuf> {
    let pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "tests/README.md"].map(PathBuf::from);
    let below = ["docs", "examples"].into_iter().flat_map(|folder| files(folder, "md"));
    pages.into_iter().chain(below).collect()
}

/// Targets of the links within the repository.
fn links(text: &str) -> Vec<&str> {
    let parts = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    parts.filter(|link| !link.contains("://") && !link.contains(' ')).collect()
}

/// How GitHub names the headings of a page.
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    titles.map(anchor).collect()
}
