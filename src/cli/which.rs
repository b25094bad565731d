//! Which engine a verb is about: the one that has state stores on the clusters, or that somebody says.

use super::arguments::{DEFAULT_ENGINE, DEFAULT_NAMESPACE, WhichArguments, namespace};
use super::{Misconfigured, Usage, ask};
use crate::engine::DEFAULT_TARGET;
use crate::survey::Surveyor;
use crate::survey::engines::EngineFound;

/// The variables of `run` that say what state stores say, too.
const NAMESPACE: &str = "SYNC_ENGINE_STATE_NAMESPACE";
const HOME: &str = "SYNC_ENGINE_HOME";

/// What is said of an engine.
#[derive(Debug, Clone, Default)]
struct Said {
    id: Option<String>,
    namespace: Option<String>,
    home: Option<String>,
}

impl WhichArguments {
    /// Completes the surveyor: with what is said, and for the rest with what its clusters tell. `mappings`: those that the verb is
    /// about, if it knows.
    ///
    /// # Errors
    /// Where several engines fit, or a variable cannot be used.
    pub(super) fn complete(&self, mut surveyor: Surveyor, mappings: &[&str]) -> anyhow::Result<Surveyor> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let said = Said { id: self.engine_id.clone(), namespace: variable(NAMESPACE), home: variable(HOME) };
        let checked = said.namespace.as_deref().map_or(Ok(String::new()), namespace);
        checked.map_err(|why| Misconfigured(format!("{NAMESPACE}: {why}")))?;
        surveyor.namespace = said.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        let is_said = said.id.is_some() && said.namespace.is_some() && said.home.is_some();
        let found = if is_said { Vec::new() } else { ask(async { Ok(surveyor.engines().await) })? };
        let connections: Vec<&str> = surveyor.connections.keys().map(String::as_str).collect();
        let chosen = choose(found, said, mappings, &connections).map_err(Usage)?;
        (surveyor.engine, surveyor.namespace, surveyor.home) = chosen;
        Ok(surveyor)
    }
}

/// Id, namespace and home of the engine. Where no cluster tells of one, the defaults of `run`.
fn choose(
    found: Vec<EngineFound>,
    said: Said,
    mappings: &[&str],
    connections: &[&str],
) -> Result<(String, String, String), String> {
    let is_said = |said: &Option<String>, found: &str| said.as_ref().is_none_or(|said| said == found);
    let mut fits = found;
    fits.retain(|one| is_said(&said.id, &one.id) && is_said(&said.namespace, &one.namespace));
    let serves = |one: &EngineFound| mappings.iter().any(|mapping| one.mappings.contains(*mapping));
    if fits.len() > 1 && fits.iter().any(serves) {
        fits.retain(serves);
    }
    if let [one, other, ..] = &*fits {
        let how = if one.id == other.id { format!("with the variable {NAMESPACE}") } else { "with --engine-id".into() };
        let all: Vec<_> = fits.iter().map(|one| format!("`{}` in the namespace {}", one.id, one.namespace)).collect();
        return Err(format!(
            "several engines have state stores on these clusters: {}; choose one {how}",
            all.join(", ")
        ));
    }
    let fit = fits.pop().unwrap_or_default();
    let mut homes = fit.homes.into_iter();
    let home = match (said.home, homes.next(), homes.next()) {
        (Some(said), ..) => said,
        (None, Some(one), Some(other)) => {
            let (id, why) = (&fit.id, "choose one with the variable");
            return Err(format!(
                "the state stores of engine `{id}` name several homes: `{one}`, `{other}`; {why} {HOME}"
            ));
        }
        (None, Some(one), None) => one,
        // A verb that is about the home cluster alone needs no other connection.
        (None, None, _) => match connections {
            [only] => (*only).to_owned(),
            _ => DEFAULT_TARGET.to_owned(),
        },
    };
    let or = |said: Option<String>, found: String, default: &str| {
        said.or_else(|| Some(found).filter(|found| !found.is_empty())).unwrap_or_else(|| default.to_owned())
    };
    Ok((or(said.id, fit.id, DEFAULT_ENGINE), or(said.namespace, fit.namespace, DEFAULT_NAMESPACE), home))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `id@namespace=home:mapping`
    fn found(text: &str) -> EngineFound {
        let (place, what) = text.split_once('=').expect("a home");
        let ((id, namespace), (home, mapping)) = (place.split_once('@').expect("@"), what.split_once(':').expect(":"));
        let (homes, mappings) = ([home.to_owned()].into(), [mapping.to_owned()].into());
        EngineFound { id: id.to_owned(), namespace: namespace.to_owned(), homes, mappings }
    }

    fn chosen(all: &[&str], said: Said, mappings: &[&str], connections: &[&str]) -> String {
        match choose(all.iter().map(|text| found(text)).collect(), said, mappings, connections) {
            Ok((id, namespace, home)) => format!("{id}@{namespace} at {home}"),
            Err(why) => why,
        }
    }

    fn said(id: &str) -> Said {
        Said { id: Some(id.to_owned()), ..Said::default() }
    }

    #[test]
    fn state_stores_tell_which_engine_is_meant() {
        let both = ["kcp", "target"];
        assert_eq!(chosen(&[], Said::default(), &["a"], &both), "main@sync-engine at target");
        assert_eq!(chosen(&[], said("eu"), &[], &["hub"]), "eu@sync-engine at hub");
        assert_eq!(chosen(&["eu@state=hub:a"], Said::default(), &["new"], &both), "eu@state at hub");
        assert_eq!(chosen(&["eu@state=hub:a"], said("us"), &[], &both), "us@sync-engine at target");
        let elsewhere = Said { namespace: Some("n".into()), home: Some("h".into()), ..Said::default() };
        assert_eq!(chosen(&["eu@state=hub:a"], elsewhere, &[], &both), "main@n at h");
    }

    #[test]
    fn of_several_engines_the_mappings_or_a_person_choose_one() {
        let (both, none) = (["kcp", "target"], Said::default);
        let two = ["eu@state=hub:a", "us@state=target:b"];
        assert_eq!(chosen(&two, none(), &["b"], &both), "us@state at target");
        assert_eq!(chosen(&two, said("eu"), &["b"], &both), "eu@state at hub");
        insta::assert_snapshot!(chosen(&two, none(), &[], &both), @"several engines have state stores on these clusters: `eu` in the namespace state, `us` in the namespace state; choose one with --engine-id");
        let same = ["eu@new=target:a", "eu@old=target:a"];
        insta::assert_snapshot!(chosen(&same, said("eu"), &["a"], &both), @"several engines have state stores on these clusters: `eu` in the namespace new, `eu` in the namespace old; choose one with the variable SYNC_ENGINE_STATE_NAMESPACE");
        let moved = EngineFound { homes: ["hub".into(), "target".into()].into(), ..found("eu@state=hub:a") };
        insta::assert_snapshot!(choose(vec![moved], none(), &[], &both).unwrap_err(), @"the state stores of engine `eu` name several homes: `hub`, `target`; choose one with the variable SYNC_ENGINE_HOME");
    }
}
