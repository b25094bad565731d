//! The status page: what runs, what does not and why, for a person with a browser or curl.

use std::fmt::Write as _;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use super::api::{Leader, Sources, Status};
use crate::health::{self, Standing};
use crate::table::table;

/// Where the engine puts its latest [`Status`]. Cloning gives another handle to the same place.
#[derive(Debug, Clone, Default)]
pub struct StatusPage {
    latest: Arc<ArcSwap<Status>>,
    /// What answers keeps nothing alive: it may have its own handle to this page.
    sources: Arc<ArcSwap<Vec<Weak<dyn Sources>>>>,
    leader: Arc<ArcSwap<Option<Leader>>>,
}

/// One mapping that the engine knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MappingOverview {
    pub name: String,
    /// The file it came from; `inventory` for one that is known from a target only.
    pub origin: String,
    pub generation: u64,
    /// `running`, `suspended`, `retained`… and why, in a few words.
    pub standing: String,
    pub sources: usize,
    pub objects: usize,
    pub queued: usize,
    pub orphans: usize,
    /// Sources that would fail and objects that would be lost by what waits for a person's approval.
    pub held: usize,
    /// The worst reason of each source that is not in sync.
    pub not_synced: Vec<ReasonOverview>,
}

/// The sources of a mapping that are not in sync for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonOverview {
    /// As the condition `Synced` has it.
    pub reason: String,
    pub sources: usize,
    /// For how long the first of them has not been.
    pub seconds: u64,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetOverview {
    pub name: String,
    /// As ownership annotations show it; empty before it is confirmed.
    pub identity: String,
}

/// One provider of source clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderOverview {
    pub name: String,
    pub clusters: usize,
    /// The first of them with their identities.
    pub identities: Vec<String>,
    pub standing: String,
}

impl StatusPage {
    /// Shows this status from now on.
    pub fn publish(&self, status: Status) {
        self.latest.store(Arc::new(status));
    }

    /// Asks them from now on about sources.
    pub fn ask(&self, who: Vec<Weak<dyn Sources>>) {
        self.sources.store(Arc::new(who));
    }

    /// This replica leads, or knows who does.
    pub fn set_leader(&self, replica: &str, leader: &str) {
        let leader = Leader { replica: replica.to_owned(), leader: leader.to_owned() };
        self.leader.store(Arc::new(Some(leader)));
    }

    pub(super) fn leader(&self) -> Option<Leader> {
        Option::clone(&self.leader.load())
    }

    pub(super) fn sources(&self) -> Vec<Arc<dyn Sources>> {
        self.sources.load().iter().filter_map(Weak::upgrade).collect()
    }

    pub fn latest(&self) -> Arc<Status> {
        self.latest.load_full()
    }
}

/// The page as plain text.
pub(super) fn render(status: &Status, standings: &[Standing]) -> String {
    let mut page = format!("sync-engine {} (engine {})\n", env!("CARGO_PKG_VERSION"), status.engine);
    section(&mut page, "Health", &health::report(standings, true));
    section(&mut page, "Mappings", &table(MAPPING_COLUMNS, status.mappings.iter().map(mapping_row)));
    section(&mut page, "Providers", &table(PROVIDER_COLUMNS, status.providers.iter().map(provider_row)));
    let targets = status.targets.iter().map(|target| [target.name.clone(), target.identity.clone()]);
    section(&mut page, "Targets", &table(["NAME", "IDENTITY"], targets));
    let problems: String = status.problems.iter().map(|problem| format!("{problem}\n")).collect();
    section(&mut page, "Errors in documents", &problems);
    page.push_str("\nSee also /readyz?verbose; POST /-/reload reads the mappings again.\n");
    page
}

const MAPPING_COLUMNS: [&str; 8] =
    ["NAME", "GENERATION", "SOURCES", "OBJECTS", "QUEUED", "ORPHANS", "ORIGIN", "STANDING"];
const PROVIDER_COLUMNS: [&str; 4] = ["NAME", "CLUSTERS", "STANDING", "IDENTITIES"];

fn mapping_row(mapping: &MappingOverview) -> [String; 8] {
    [
        mapping.name.clone(),
        mapping.generation.to_string(),
        mapping.sources.to_string(),
        mapping.objects.to_string(),
        mapping.queued.to_string(),
        mapping.orphans.to_string(),
        mapping.origin.clone(),
        mapping.standing.clone(),
    ]
}

fn provider_row(provider: &ProviderOverview) -> [String; 4] {
    let hidden = provider.clusters.saturating_sub(provider.identities.len());
    let more = (hidden > 0).then(|| format!("and {hidden} more"));
    let identities: Vec<String> = provider.identities.iter().cloned().chain(more).collect();
    [provider.name.clone(), provider.clusters.to_string(), provider.standing.clone(), identities.join(", ")]
}

fn section(page: &mut String, title: &str, body: &str) {
    let body = if body.is_empty() { "none\n" } else { body };
    let _ = write!(page, "\n{title}\n{}\n{body}", "-".repeat(title.len()));
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::super::health::Condition;
    use super::*;

    /// A mapping that runs, and nothing of it waits.
    pub fn running(name: &str) -> MappingOverview {
        MappingOverview {
            name: name.to_owned(),
            origin: format!("{name}.yaml"),
            generation: 7,
            standing: "running".to_owned(),
            sources: 2,
            objects: 8,
            queued: 0,
            orphans: 0,
            held: 0,
            not_synced: Vec::new(),
        }
    }

    #[test]
    fn the_page_names_mappings_providers_and_what_is_wrong() {
        let status = Status {
            engine: "main".to_owned(),
            mappings: vec![MappingOverview {
                standing: "running the last good version".to_owned(),
                ..running("mongodb")
            }],
            providers: vec![ProviderOverview {
                name: "kcp".to_owned(),
                clusters: 3,
                identities: vec!["2xcau5l8".to_owned(), "edge=uid-1".to_owned()],
                standing: "ready".to_owned(),
            }],
            targets: vec![TargetOverview { name: "target".to_owned(), identity: "abcd".to_owned() }],
            problems: vec!["error[SE0101]: unknown field `statsu`\n  --> mongodb.yaml:9:3".to_owned()],
            ..Status::default()
        };
        let standings = [Standing {
            component: "connection target".to_owned(),
            condition: Condition::waiting("connection refused"),
            lasted: Duration::from_secs(5),
        }];
        insta::assert_snapshot!(render(&status, &standings).replace(env!("CARGO_PKG_VERSION"), "VERSION"), @"
        sync-engine VERSION (engine main)

        Health
        ------
        [-] connection target not ready for 5s: connection refused
        not ready: 1 condition of 1

        Mappings
        --------
        NAME      GENERATION   SOURCES   OBJECTS   QUEUED   ORPHANS   ORIGIN         STANDING
        mongodb   7            2         8         0        0         mongodb.yaml   running the last good version

        Providers
        ---------
        NAME   CLUSTERS   STANDING   IDENTITIES
        kcp    3          ready      2xcau5l8, edge=uid-1, and 1 more

        Targets
        -------
        NAME     IDENTITY
        target   abcd

        Errors in documents
        -------------------
        error[SE0101]: unknown field `statsu`
          --> mongodb.yaml:9:3

        See also /readyz?verbose; POST /-/reload reads the mappings again.
        ");
    }

    #[test]
    fn an_engine_with_nothing_says_so() {
        let page = render(&Status::default(), &[]);
        assert!(page.contains("\nHealth\n------\nready\n"), "{page}");
        assert_eq!(page.matches("\nnone\n").count(), 4, "{page}");
    }
}
