//! What a session sees, as the resolver asks for it, and the views it has read before.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    catalog::{RelationId, SystemRelation, functions::FunctionDef},
    policy::{SessionView, WriteDecision, obligation::RelationDecision},
    rejection::Rejection,
    resolve::{Changes, ViewBody, Visible},
    session::Session,
    syntax::with_stack,
};

/// Resolved queries of views, by session: parsing a view again for each statement costs more than
/// everything else. When there are too many, all are forgotten.
#[derive(Debug, Default)]
pub(in crate::firewall) struct ViewCache {
    bodies: Mutex<HashMap<Session, Bodies>>,
}

/// Those of one session.
type Bodies = HashMap<RelationId, Arc<ViewBody>>;

const VIEWS: usize = 4096;

/// Levels of the deepest tree that the default limits admit, with room.
const LEVELS: usize = 1024;

impl Drop for ViewCache {
    fn drop(&mut self) {
        forget(
            self.bodies
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

/// Drops trees where the stack has room for it.
fn forget(bodies: &mut HashMap<Session, Bodies>) {
    with_stack(LEVELS, || bodies.clear());
}

/// A session's view of the catalog.
pub(in crate::firewall) struct SessionCatalog<'f> {
    session_view: Arc<SessionView>,
    /// By what the session's views are remembered.
    session: Cow<'f, Session>,
    cache: &'f ViewCache,
    /// Whether the firewall lets anything be changed.
    changes: bool,
    /// What was decided about the relations of the statement: it is asked for of every column.
    asked: RefCell<Vec<(RelationId, Arc<RelationDecision>)>>,
}

impl<'f> SessionCatalog<'f> {
    pub(in crate::firewall) fn new(
        session_view: Arc<SessionView>,
        session: Cow<'f, Session>,
        cache: &'f ViewCache,
        changes: bool,
    ) -> Self {
        Self {
            session_view,
            session,
            cache,
            changes,
            asked: RefCell::default(),
        }
    }

    /// Whether tables are read as they were.
    pub(in crate::firewall) fn is_past(&self) -> bool {
        self.session.past().is_some()
    }

    pub(in crate::firewall) fn session_view(&self) -> &Arc<SessionView> {
        &self.session_view
    }
}

impl Visible for SessionCatalog<'_> {
    fn relation(&self, id: RelationId) -> Result<Arc<RelationDecision>, Rejection> {
        let mut asked = self.asked.borrow_mut();
        if let Some((_, known)) = asked.iter().find(|(relation, _)| *relation == id) {
            return Ok(Arc::clone(known));
        }
        let mut decision = self.session_view.relation(id)?;
        if let Some(label) = self.session.past() {
            // A decision of its own: what is printed for it is remembered by its address.
            decision = Arc::new(RelationDecision {
                past: Some(Arc::clone(label)),
                ..(*decision).clone()
            });
        }
        asked.push((id, Arc::clone(&decision)));
        Ok(decision)
    }

    fn write(&self, id: RelationId) -> Result<Arc<WriteDecision>, Rejection> {
        self.session_view.write(id)
    }

    fn changes(&self) -> Changes {
        match (self.changes, self.session_view.may_write()) {
            (true, true) => Changes::Permitted,
            (false, true) => Changes::NotHere,
            (true | false, false) => Changes::Unpermitted,
        }
    }

    fn reads_system(&self, known: &SystemRelation) -> Result<bool, Rejection> {
        self.session_view.reads_system(known)
    }

    fn calls(&self, def: &FunctionDef) -> Result<bool, Rejection> {
        Ok(self.session_view.function(def)?.permitted)
    }

    fn shown_principal(&self) -> String {
        self.session_view.shown_principal()
    }

    fn names(&self) -> Vec<String> {
        let visible = self.session_view.discoverable().unwrap_or_default();
        visible
            .into_iter()
            .filter_map(|(id, _)| {
                self.session_view
                    .catalog()
                    .relation(id)
                    .map(|r| r.name.clone())
            })
            .collect()
    }

    fn cached_view(&self, id: RelationId) -> Option<Arc<ViewBody>> {
        // What is below may be decided otherwise at another time.
        if self.session_view.has_time() || self.session.past().is_some() {
            return None;
        }
        // A poisoned lock guards finished values; the panic was elsewhere.
        let bodies = self
            .cache
            .bodies
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        bodies.get(&*self.session)?.get(&id).cloned()
    }

    fn cache_view(&self, id: RelationId, body: &Arc<ViewBody>) {
        if self.session_view.has_time() || self.session.past().is_some() {
            return;
        }
        let mut bodies = self
            .cache
            .bodies
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if bodies.values().map(HashMap::len).sum::<usize>() >= VIEWS {
            forget(&mut bodies);
        }
        let own = bodies.entry((*self.session).clone()).or_default();
        own.insert(id, Arc::clone(body));
    }
}
