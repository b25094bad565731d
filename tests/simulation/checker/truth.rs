//! Whether what a source says of itself is true.

use std::time::Duration;

use super::super::mapping::{Mapping, Rule, Spread};
use super::super::records::Made;
use super::Checker;

impl Checker {
    /// Why the objects of a source are not those of a generation that its status says is observed.
    pub(super) fn untrue(&self, at: Duration, uid: &str, generation: i64) -> Option<String> {
        let (source, lately) = (self.sources.get(uid)?, self.lately(at));
        let is_its = |one: &&Mapping| one.resource == source.resource && one.mode == "Enforce";
        let editions: Option<Vec<&Mapping>> = self.recent(at).map(|edition| edition.filter(is_its)).collect();
        let mut editions = editions?;
        if let Some(last) = editions.last() {
            let candidates: Vec<&Mapping> = self.candidates(at, last.name).collect();
            editions.splice(0..0, candidates);
        }
        let last = editions.last()?;
        let has_rule = |rule: &Rule| editions.iter().all(|one| one.name == last.name && one.rules.contains(rule));
        let [cluster, _, name] = &source.place;
        let of_source =
            |made: &&Made| made.owner.engine == "main" && made.owner.mapping == last.name && made.source_uid == uid;
        for rule in last.rules.iter().filter(|rule| has_rule(rule)) {
            let of_rule = |made: &&Made| made.is_by(rule) && (!made.gone || lately(made.gone_at));
            let all: Vec<&Made> = self.made.values().filter(of_source).filter(of_rule).collect();
            if all.is_empty() && !rule.conditional && last.spread == Spread::One {
                let is_of_earlier = |made: &&Made| {
                    made.is_by(rule)
                        && made.owner.name == *name
                        && (cluster.is_empty() || made.owner.cluster == *cluster)
                };
                if !self.made.values().filter(|made| made.remains()).any(|made| is_of_earlier(&made)) {
                    return Some(format!("`{}` does not exist", rule.id));
                }
            }
            // Else it may be on a target that its source does not go to.
            let is_given = |_: &&&Made| editions.iter().all(|one| matches!(one.spread, Spread::One | Spread::Both));
            // What somebody else changed, or what came late, is not the engine's word.
            let is_its_word = |made: &&&Made| made.remains() && !made.edited && !lately(made.written);
            for made in all.iter().filter(is_given).filter(is_its_word) {
                let has = made.size.as_ref().and_then(|size| source.generation_with(size));
                if let Some(has) = has.filter(|has| *has < generation) {
                    return Some(format!("{} is of generation {has}", made.place()));
                }
            }
        }
        None
    }
}
