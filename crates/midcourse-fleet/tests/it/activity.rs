//! What the threads of a test with faults are doing, for those that wait for it.

use std::sync::{Condvar, Mutex, MutexGuard};

/// Shared by the threads of a test.
#[derive(Default)]
pub(crate) struct Activity {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: u64,
    working: usize,
    failed: Option<String>,
}

impl Activity {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Bytes went through a proxy.
    pub(crate) fn forwarded(&self, count: usize) {
        self.change(|state| state.bytes += count as u64);
    }

    /// Somebody has something to do.
    pub(crate) fn begin(&self) {
        self.change(|state| state.working += 1);
    }

    /// Somebody has done it.
    pub(crate) fn end(&self) {
        self.change(|state| state.working -= 1);
    }

    /// Something went wrong that must not.
    pub(crate) fn fail(&self, why: String) {
        self.change(|state| _ = state.failed.get_or_insert(why));
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Fails the test if something went wrong.
    #[track_caller]
    pub(crate) fn check(&self) {
        let failed = self.state().failed.clone();
        assert_eq!(failed, None);
    }

    /// Waits until this many further bytes went through proxies, or nobody has anything to do.
    pub(crate) fn wait_for_bytes(&self, count: u64) {
        let until = self.state().bytes + count;
        self.wait_while(|state| state.bytes < until && state.working > 0);
    }

    fn wait_while(&self, condition: impl Fn(&State) -> bool) {
        let goes_on = |state: &mut State| state.failed.is_none() && condition(state);
        drop(self.changed.wait_while(self.state(), goes_on).unwrap());
    }
}
