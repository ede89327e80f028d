//! What the plugins of a run and of its child runs share: the monitor, and the callback for trouble.

use std::sync::Arc;

use midcourse::Monitor;

use crate::guard::guard;
use crate::trouble::Trouble;

/// What the plugins of a run and its children share.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) monitor: Monitor,
    pub(crate) on_trouble: Arc<dyn Fn(&Trouble) + Send + Sync>,
}

impl Setup {
    pub(crate) fn report(&self, trouble: &Trouble) {
        // If the callback itself panics there is nobody left to tell.
        let _ = guard(|| (self.on_trouble)(trouble));
    }
}
