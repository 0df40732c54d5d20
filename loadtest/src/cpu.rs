//! The CPU time that this process has used, read from `/proc/self/stat`.

use std::time::Duration;

/// Linux counts in hundredths of a second towards user space, on every architecture.
const TICK: Duration = Duration::from_millis(10);

/// User and system time since the process began; `None` where `/proc` does not tell.
pub(crate) fn used() -> Option<Duration> {
    parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Fields 14 and 15, counted after the command name, which may hold spaces and parentheses.
fn parse(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let (user, system) = (ticks()?, ticks()?);
    TICK.checked_mul(user.checked_add(system)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_found_after_any_command_name() {
        let stat = "42 (a) b) c) S 1 42 42 0 -1 4194304 100 0 0 0 150 25 0 0 20 0 1 0 12345 0 0";
        assert_eq!(parse(stat), Some(Duration::from_millis(1_750)));
        assert_eq!(parse("nonsense"), None);
    }
}
