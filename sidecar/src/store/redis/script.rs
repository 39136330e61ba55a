//! The operations as scripts, and their arguments.

use redis::{Cmd, Script};
use turnstone_lane::{EVICT_SLICE, LOOKAHEAD, Micros, NEW_FOR, Operation};

use super::keys;
use crate::policy::{LaneKey, Rules};

/// One script per operation, all behind one prelude.
#[derive(Debug)]
pub(super) struct Scripts {
    take: Source,
    answered: Source,
    leave: Source,
    evict: Source,
    pause: Source,
    look: Source,
    repair: Source,
}

#[derive(Debug)]
struct Source {
    code: &'static str,
    sha1: String,
}

impl Source {
    fn new(code: &'static str) -> Self {
        Self { code, sha1: Script::new(code).get_hash().to_owned() }
    }
}

macro_rules! source {
    ($name:literal) => {
        Source::new(concat!(include_str!("../lua/prelude.lua"), include_str!(concat!("../lua/", $name))))
    };
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            take: source!("take.lua"),
            answered: source!("answered.lua"),
            leave: source!("leave.lua"),
            evict: source!("evict.lua"),
            pause: source!("pause.lua"),
            look: source!("look.lua"),
            repair: Source::new(include_str!("../lua/repair.lua")),
        }
    }
}

/// One call, by hash and, where Redis has not seen the script yet, whole.
#[derive(Debug)]
pub(super) struct Call<'a> {
    source: &'a Source,
    keys: [String; 3],
    arguments: Vec<Vec<u8>>,
}

impl Call<'_> {
    pub fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.source.sha1)
    }

    /// To the lane's own node: loading it everywhere would fail just when a node is away.
    pub fn whole(&self) -> Cmd {
        self.command("EVAL", self.source.code)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys[..]).arg(&self.arguments[..]);
        command
    }
}

impl Scripts {
    /// `vouched`: the replication id of a node that has been the master for long enough.
    pub fn call(
        &self,
        lane: &LaneKey,
        operation: Operation,
        rules: Rules,
        now: Option<Micros>,
        vouched: Option<String>,
    ) -> Call<'_> {
        let mut arguments = common(rules, now);
        let source = self.pick(operation, &mut arguments);
        if let Operation::Take(take) = operation {
            let most = take.bounds.max_line.map(|line| i64::try_from(line).unwrap_or(i64::MAX));
            arguments.push(vouched.unwrap_or_default().into_bytes());
            arguments.extend([optional(take.bounds.max_wait), optional(most)]);
            arguments.extend([number(take.only_join.into()), number(NEW_FOR)]);
        }
        Call { source, keys: keys::of(lane), arguments }
    }

    /// Takes away whatever in a lane's keys is not ours.
    pub fn repair(&self, lane: &LaneKey, rules: Rules) -> Call<'_> {
        Call { source: &self.repair, keys: keys::of(lane), arguments: common(rules, None) }
    }

    fn pick(&self, operation: Operation, arguments: &mut Vec<Vec<u8>>) -> &Source {
        match operation {
            Operation::Take(take) => {
                arguments.push(take.ticket.to_bytes().to_vec());
                arguments.push(take.owner.0.to_be_bytes().to_vec());
                arguments.push(optional(take.since));
                arguments.push(optional(take.evidence.map(|seen| seen.revision)));
                arguments.push(optional(take.evidence.map(|seen| seen.age)));
                &self.take
            }
            Operation::Answered { ticket, age } => {
                arguments.extend([ticket.to_bytes().to_vec(), number(age)]);
                &self.answered
            }
            Operation::Leave { ticket, unsent } => {
                arguments.extend([ticket.to_bytes().to_vec(), number(unsent.into())]);
                &self.leave
            }
            Operation::Evict { owner, head, skip } => {
                arguments.extend([owner.0.to_be_bytes().to_vec(), head.to_bytes().to_vec()]);
                arguments.extend([skip, EVICT_SLICE].map(|count| count.to_string().into_bytes()));
                &self.evict
            }
            Operation::Pause { until } => {
                arguments.push(number(until));
                &self.pause
            }
            Operation::Resume => {
                arguments.push(number(0));
                &self.pause
            }
            Operation::Look => &self.look,
        }
    }
}

fn common(rules: Rules, now: Option<Micros>) -> Vec<Vec<u8>> {
    vec![
        optional(now),
        number(rules.pace.interval),
        number(rules.pace.settle),
        number(LOOKAHEAD),
        rules.idle_ttl.as_millis().to_string().into_bytes(),
    ]
}

fn number(number: Micros) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn optional(value: Option<Micros>) -> Vec<u8> {
    value.map(number).unwrap_or_default()
}
