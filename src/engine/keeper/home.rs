//! What home says of a mapping: the document in force, and its targets, so that a start knows of them.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::{Doubt, Unanswered, is_unread};
use crate::engine::inventory::{self, Inventories, Inventory};
use crate::engine::pipeline::{Generation, Pipeline};
use crate::engine::serving::{compiled, other_document};
use crate::mapping::Mapping;
use crate::multicluster::RequestError;
use crate::multicluster::connection::Connection;
use crate::multicluster::permit::Permit;
use crate::object::{are, count};

/// What home says of a mapping's targets, as the keepers of all of them know it.
#[derive(Debug, Default)]
pub struct ToldHome {
    /// With the term of the lease in which that was found.
    pub(in crate::engine) list: Option<(u64, Inventory)>,
    /// What this process last wrote there in a term. Home that is put back meanwhile does not take it back.
    written: Option<(u64, Inventory)>,
    /// When home was last asked for it, and gave an answer, with the term.
    pub(in crate::engine) asked: Option<(u64, Instant)>,
    /// When a request to home last failed, and why.
    failed: Option<(Instant, String)>,
}

impl ToldHome {
    /// Whoever waited while home was asked for another target does not ask it once more.
    fn is_as_of(&self, term: u64, began: Instant) -> bool {
        self.asked.is_some_and(|(of, at)| of == term && at > began)
    }

    /// Whoever waited while a request for another target failed does not wait for home once more: home that gives no answer takes
    /// as long for hundreds of targets as for one.
    fn failed_since(&self, began: Instant) -> Option<String> {
        self.failed.as_ref().filter(|(at, _)| *at > began).map(|(_, why)| why.clone())
    }
}

/// Where home names the document and the targets of a mapping, so that a start knows of them. `None`: home is its target, and the
/// state store there says all.
pub(in crate::engine) fn home_of_list<'p>(
    pipeline: &'p Pipeline,
    generation: &Generation,
) -> Option<&'p Arc<Connection>> {
    let settings = &pipeline.shared.settings;
    let is_elsewhere = generation.mapping.target_rule.is_some() || generation.target.name != settings.home;
    settings.home_connection().filter(|_| is_elsewhere)
}

/// Lets a document act on a target where home names it, or a file does. One that only the state store of a target has runs nowhere:
/// whoever can write there has no say on the other targets.
pub(in crate::engine) async fn heed_home(
    pipeline: &Pipeline,
    generation: &Generation,
    home: &Arc<Connection>,
    found: Option<&Inventory>,
) -> Result<(), Doubt> {
    let mapping = &generation.mapping;
    let other = |store: &Inventory| other_document(store, mapping).filter(|one| !pipeline.supersedes(one));
    let theirs = found.and_then(other);
    let is_of_file = found.is_some() && theirs.is_none() && generation.is_of_file;
    let is_believed = |list: &Inventory| theirs.is_none() && other(list).is_none() && !is_unread(list, mapping);
    let list = match home_says(pipeline, home, is_believed).await {
        // Home that goes away holds up nothing that is as it was.
        Err(_) if is_of_file => return Ok(()),
        said => said?,
    };
    let target = &generation.target.name;
    let name_of_list = inventory::name_of_list(&pipeline.shared.settings.engine, &mapping.name);
    if list.as_ref().is_some_and(|list| is_unread(list, mapping)) {
        let why = format!(
            "target `{target}`: home names a document that this version of the engine cannot read: run the version that wrote \
             it, or take the field `document` out of the ConfigMap `{name_of_list}` at home, and out of those of the mapping on \
             its targets, to have the one in the file run at once"
        );
        return Err(why.into());
    }
    let is_home = *target == pipeline.shared.settings.home;
    let why = match list {
        None if is_of_file => return Ok(()),
        None if theirs.is_none() && generation.is_of_file => match pipeline.controller.sources_held("").len() {
            // Tenants can write the finalizer. Where no target can hold a state store, that holds up nobody.
            held if held == 0 || !pipeline.may_another_hold_a_store(mapping) => return Ok(()),
            held => format!(
                "target `{target}`: it holds no state store yet, and home names no document of the mapping, although {} {} synced: \
                 the state store on another target may name what the file no longer has. Nothing is written or deleted there \
                 before a state store with the document of the file is in sight: bring the other targets back, or put back the \
                 ConfigMap `{name_of_list}` at home",
                count(held, "source"),
                are(held),
            ),
        },
        None => format!(
            "target `{target}`: home names no document of the mapping, and no file that runs has the one of the state store on a \
             target: nothing is written or deleted there. Put that document into the file; if this version of the engine refuses \
             it, mend it while the version before runs"
        ),
        Some(list) => match (other(&list), theirs, found.filter(|found| !is_home && is_later(found, &list))) {
            (None, None, _) => return Ok(()),
            (None, Some(theirs), None) => {
                // A target that was out of sight, or was put back.
                pipeline.supersede(&theirs);
                return Ok(());
            }
            (Some(_), _, None) => {
                let why =
                    format!("target `{target}`: home names another document, which goes on until this one is released");
                return Err(Doubt { found: Some(Box::new(list)), ..why.into() });
            }
            (_, _, Some(_)) => format!(
                "target `{target}`: the state store there holds a later document than home names: home was put back to an earlier \
                 state, or somebody else wrote that document. Nothing is written or deleted there. If home was put back, put back \
                 its ConfigMap `{name_of_list}` as it was; or delete that one, where the file has what the state store holds"
            ),
        },
    };
    let store = inventory::name(&pipeline.shared.settings.engine, &mapping.name);
    let why = format!(
        "{why}. To have what home or the file says act there at once, and count nothing that it deletes, take the field `document` \
         out of the ConfigMap `{store}` on the target that holds it"
    );
    Err(why.into())
}

/// Finds out at home which document goes on, where a file was removed before this process had its document recorded: another
/// process may have recorded it, or the answer to this one was lost.
pub(in crate::engine) async fn look_at_home(pipeline: &Pipeline, generation: &Generation) -> Result<(), Doubt> {
    let (Some(home), mapping) = (home_of_list(pipeline, generation), &generation.mapping) else { return Ok(()) };
    let is_it = |list: &Inventory| list.document == mapping.text;
    match home_says(pipeline, home, is_it).await? {
        Some(list) if is_it(&list) => {
            list.recorded.into_iter().for_each(|at| pipeline.named_at_home(mapping, at));
            Ok(())
        }
        Some(list) if other_document(&list, mapping).is_some() => {
            let target = &generation.target.name;
            let why = format!("target `{target}`: home names another document than the file had, and that one goes on");
            Err(Doubt { found: Some(Box::new(list)), ..why.into() })
        }
        _ => Ok(()),
    }
}

/// Whether a state store holds another document than home, and says that it is a later one.
fn is_later(store: &Inventory, home: &Inventory) -> bool {
    let is_other = |theirs: Arc<Mapping>| other_document(store, &theirs).is_some();
    store.recorded > home.recorded
        && !store.document.is_empty()
        && compiled(&home.document).map_or(store.document != home.document, is_other)
}

/// What home says of a mapping. It is read where nothing is known that is to be believed.
async fn home_says(
    pipeline: &Pipeline,
    home: &Arc<Connection>,
    is_believed: impl Fn(&Inventory) -> bool,
) -> Result<Option<Inventory>, Doubt> {
    let (began, term) = (Instant::now(), pipeline.shared.lease.number());
    let mut told = pipeline.controller.told_home.lock().await;
    let of_term = |known: &Option<(u64, Inventory)>| known.clone().filter(|(of, _)| *of == term).map(|(_, list)| list);
    if let Some(list) = of_term(&told.list).filter(is_believed) {
        return Ok(Some(list));
    }
    let inventories = pipeline.shared.inventories(home.endpoint());
    let asked = Instant::now();
    let read = match told.failed_since(began) {
        Some(why) => Err(why),
        None if told.is_as_of(term, began) => Ok(of_term(&told.list)),
        None => match read_list(&inventories, pipeline.writer.mapping()).await {
            Ok(list) => {
                told.asked = Some((term, asked));
                told.list = list.clone().map(|list| (term, list));
                Ok(list)
            }
            Err(error) => {
                told.failed = Some((Instant::now(), error.to_string()));
                Err(error.to_string())
            }
        },
    };
    match (read, of_term(&told.written)) {
        (Ok(list), written) => Ok(list.into_iter().chain(written).max_by_key(|list| list.recorded)),
        (Err(_), Some(written)) => Ok(Some(written)),
        (Err(why), None) => {
            let why = format!("home, which names the document in force, cannot be read: {why}");
            Err(Doubt { is_of_others: true, ..why.into() })
        }
    }
}

/// What is written at home of a mapping. While home was its only target, the state store there alone was.
async fn read_list(home: &Inventories, mapping: &str) -> Result<Option<Inventory>, RequestError> {
    let (list, store) = (home.list_of_targets(mapping).await?, home.get(mapping).await?);
    let resource_version = list.as_ref().map(|list| list.resource_version.clone()).unwrap_or_default();
    let latest = store.into_iter().chain(list).max_by_key(|one| one.recorded);
    Ok(latest.map(|one| Inventory { is_list: true, resource_version, ..one }))
}

/// Writes at home what the state store on a target is to say of the document and of the targets, where it is written at all. Gives
/// when home has it that the document was recorded.
pub(in crate::engine) async fn tell_home(
    pipeline: &Pipeline,
    generation: &Generation,
    store: &Inventory,
    permit: &Permit,
    unanswered: &mut Unanswered,
) -> Result<Option<Timestamp>, String> {
    let Some(home) = home_of_list(pipeline, generation).filter(|_| generation.records()) else { return Ok(None) };
    let inventories = pipeline.shared.inventories(home.endpoint().permitted(permit.clone()));
    let began = Instant::now();
    let mut told = pipeline.controller.told_home.lock().await;
    if let Some(why) = told.failed_since(began) {
        return Err(why);
    }
    if !std::ptr::eq(generation, &*pipeline.generation()) {
        return Err("another document runs meanwhile".to_owned());
    }
    let term = pipeline.shared.lease.number();
    told.asked = None;
    let known = told.list.take().filter(|(of, _)| *of == term && !unanswered.write.has_failed());
    let stored = async {
        let known = match known {
            Some((_, list)) => Some(list),
            None => read_list(&inventories, &store.mapping).await?,
        };
        let list = list_of_targets(store, known.as_ref());
        if known.as_ref() == Some(&list) { Ok(list) } else { inventories.put(&list).await }
    };
    match stored.await {
        Ok(list) => {
            let recorded = list.recorded;
            recorded.into_iter().for_each(|at| pipeline.named_at_home(&generation.mapping, at));
            told.written = Some((term, list.clone()));
            told.list = Some((term, list));
            Ok(recorded)
        }
        Err(error) => {
            unanswered.write.failed(&error);
            told.failed = Some((Instant::now(), error.to_string()));
            Err(error.to_string())
        }
    }
}

/// What home is to say of a mapping with this state store. Each document is later there than the one before it, whatever clocks
/// say.
fn list_of_targets(store: &Inventory, known: Option<&Inventory>) -> Inventory {
    let recorded = match known.and_then(|known| Some((known, known.recorded?))) {
        None => store.recorded,
        Some((known, at)) if known.documents() == store.documents() => store.recorded.max(Some(at)),
        // A clock would make it later than what home said before it was put back.
        Some((known, at)) => Some(known.next_moment(at)),
    };
    Inventory {
        mapping: store.mapping.clone(),
        document: store.document.clone(),
        provider: store.provider.clone(),
        recorded,
        source: store.source.clone(),
        targets: store.targets.clone(),
        home: store.home.clone(),
        is_list: true,
        resource_version: known.map(|known| known.resource_version.clone()).unwrap_or_default(),
        ..Inventory::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::keeper::LOOK;

    #[tokio::test(start_paused = true)]
    async fn home_that_gives_no_answer_is_waited_for_once_however_many_targets_there_are() {
        let (mut told, began) = (ToldHome::default(), Instant::now());
        assert_eq!(told.failed_since(began), None);
        tokio::time::advance(LOOK).await;
        told.failed = Some((Instant::now(), "no answer".into()));
        assert_eq!(told.failed_since(began).as_deref(), Some("no answer"));
        assert_eq!(told.failed_since(Instant::now()), None, "who comes later asks it again");
    }

    #[tokio::test(start_paused = true)]
    async fn home_is_asked_once_for_all_targets_that_wait_for_it() {
        let began = Instant::now();
        tokio::time::advance(LOOK).await;
        let told = ToldHome { asked: Some((7, Instant::now())), ..ToldHome::default() };
        assert!(told.is_as_of(7, began) && !told.is_as_of(8, began), "another replica may have led");
        assert!(!told.is_as_of(7, Instant::now()), "who comes later asks it again");
    }

    fn at(moment: i64, document: &str) -> Inventory {
        Inventory {
            document: document.into(),
            recorded: Timestamp::from_millisecond(moment).ok(),
            ..Inventory::default()
        }
    }

    /// By its moment alone, home's word differs from one that a removal is under way to. And it says which of two documents is the
    /// later one, whatever the clock said when a state store was written.
    #[test]
    fn home_names_the_last_moment_at_which_any_target_recorded_the_document() {
        for (store, known, recorded) in [
            (at(20, "a"), None, 20),
            (at(20, "a"), Some(at(10, "a")), 20),
            (at(10, "a"), Some(at(20, "a")), 20),
            (at(10, "a"), Some(at(20, "b")), 21),
            (at(90, "a"), Some(at(20, "b")), 21),
        ] {
            let list = list_of_targets(&store, known.as_ref());
            assert_eq!(list.recorded, Timestamp::from_millisecond(recorded).ok());
        }
    }

    /// Of home that was put back, what a state store holds since is later, and not what was released after it.
    #[test]
    fn a_state_store_is_later_than_home_by_another_document_and_a_later_moment() {
        let home = at(20, "a");
        assert!(is_later(&at(21, "b"), &home));
        assert!(!is_later(&at(20, "b"), &home) && !is_later(&at(10, "b"), &home));
        assert!(!is_later(&at(21, "a"), &home), "home could not be told the moment");
        assert!(!is_later(&at(21, ""), &home), "a person has taken the document out");
    }
}
