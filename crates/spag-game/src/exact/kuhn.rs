//! Kuhn poker (Kuhn 1950), one round: best responses, exploitability, and the value of a match.
//!
//! A round has four points at which somebody decides, each with one of three cards, so a policy is twelve probabilities.

/// The cards, from jack to king.
const CARDS: usize = 3;

/// What a round is played for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KuhnStakes {
    /// Bets and calls pay one chip into the pot: a showdown after a call is worth 2 chips.
    Counted,
    /// Bets and calls move no chips, as in TextArena 0.7.4: every round is worth 1 chip.
    Flat,
}

/// A point of a round at which somebody decides between a passive and an aggressive action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KuhnNode {
    /// The beginner checks or bets.
    Opening,
    /// The other checks or bets, after a check.
    AfterCheck,
    /// The other folds or calls, after a bet.
    AfterBet,
    /// The beginner folds or calls, after a check and a bet.
    AfterCheckBet,
}

impl KuhnNode {
    /// All nodes.
    pub const ALL: [Self; 4] = [Self::Opening, Self::AfterCheck, Self::AfterBet, Self::AfterCheckBet];

    /// What was done before.
    pub fn history(self) -> &'static [&'static str] {
        match self {
            Self::Opening => &[],
            Self::AfterCheck => &["check"],
            Self::AfterBet => &["bet"],
            Self::AfterCheckBet => &["check", "bet"],
        }
    }

    /// The passive and the aggressive action.
    pub fn actions(self) -> [&'static str; 2] {
        match self {
            Self::Opening | Self::AfterCheck => ["check", "bet"],
            Self::AfterBet | Self::AfterCheckBet => ["fold", "call"],
        }
    }

    /// Whether the player who began the round decides.
    pub fn is_beginners(self) -> bool {
        matches!(self, Self::Opening | Self::AfterCheckBet)
    }
}

/// How a player decides: the probability of the aggressive action (bet or call) at each node, in the order of
/// [`KuhnNode::ALL`], with each card, from jack to king.
///
/// ```
/// use spag_game::exact::{KuhnPolicy, KuhnStakes};
///
/// let uniform = KuhnPolicy([[0.5; 3]; 4]);
/// assert!((uniform.exploitability(KuhnStakes::Counted) - 11.0 / 24.0).abs() < 1e-12);
/// assert!((uniform.exploitability(KuhnStakes::Flat) - 3.0 / 8.0).abs() < 1e-12);
/// assert!(KuhnPolicy::nash(0.2).exploitability(KuhnStakes::Counted).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KuhnPolicy(pub [[f64; CARDS]; 4]);

/// The chips that the beginner wins in a round, as a function of what they are worth to it.
struct Payoffs<'a> {
    showdown: i64,
    worth: &'a dyn Fn(i64) -> f64,
}

impl Payoffs<'_> {
    /// What a showdown for `chips` is worth to the beginner.
    fn showdown(&self, own: usize, other: usize, chips: i64) -> f64 {
        (self.worth)(if own > other { chips } else { -chips })
    }
}

impl KuhnStakes {
    /// Chips of a showdown after a call.
    fn after_call(self) -> i64 {
        match self {
            Self::Counted => 2,
            Self::Flat => 1,
        }
    }
}

impl KuhnPolicy {
    /// The equilibria with counted bets: the beginner bets a jack with probability `alpha`, from 0 to 1/3, and a king three
    /// times as often. The beginner loses 1/18 chip a round.
    pub fn nash(alpha: f64) -> Self {
        let third = 1.0 / 3.0;
        Self([[alpha, 0.0, 3.0 * alpha], [third, 0.0, 1.0], [0.0, third, 1.0], [0.0, alpha + third, 1.0]])
    }

    fn at(&self, node: KuhnNode, card: usize) -> f64 {
        self.0[node as usize][card]
    }

    /// Half the chips a round that best responses to both seats win together (NashConv/2): 0 for an equilibrium.
    pub fn exploitability(&self, stakes: KuhnStakes) -> f64 {
        let [beginner, other] = self.best_responses(stakes);
        (beginner + other) / 2.0
    }

    /// The chips a round that a best response wins as the beginner, and as the other, against this policy.
    pub fn best_responses(&self, stakes: KuhnStakes) -> [f64; 2] {
        let chips = |chips: i64| chips as f64;
        let payoffs = Payoffs { showdown: stakes.after_call(), worth: &chips };
        [self.best_beginner(&payoffs), -self.best_other(&payoffs)]
    }

    /// The chips a round that the beginner wins if both play this policy.
    pub fn value(&self, stakes: KuhnStakes) -> f64 {
        let chips = stakes.after_call();
        let mut sum = 0.0;
        for (own, other) in deals() {
            let sign = if own > other { 1.0 } else { -1.0 };
            let showdown = sign * chips as f64;
            let (bets, replies) = (self.at(KuhnNode::Opening, own), self.at(KuhnNode::AfterCheck, other));
            let (calls, late) = (self.at(KuhnNode::AfterBet, other), self.at(KuhnNode::AfterCheckBet, own));
            let after_bet = calls * showdown + (1.0 - calls);
            let after_check = (1.0 - replies) * sign + replies * (late * showdown - (1.0 - late));
            sum += bets * after_bet + (1.0 - bets) * after_check;
        }
        sum / 6.0
    }

    /// The expected reward of this policy as player 0 and as player 1 of a match of `rounds` rounds against the opponent
    /// that makes it least: 1 if it has more chips at the end, −1 if fewer, 0 if equal. Player 1 begins the first round,
    /// then they alternate. The opponent knows the policy, and the chips.
    pub fn match_values(&self, stakes: KuhnStakes, rounds: usize) -> [f64; 2] {
        let reach = stakes.after_call() * rounds as i64;
        [0, 1].map(|seat| {
            // From the last round to the first: the reward by the chips of the policy before the round.
            let mut values: Vec<f64> = (-reach..=reach).map(|chips| chips.signum() as f64).collect();
            for round in (0..rounds).rev() {
                let begins = (round % 2 == 0) == (seat == 1);
                let value = |chips: i64| {
                    let at = |more: i64| {
                        values[usize::try_from(chips + more + reach).unwrap_or_default().min(values.len() - 1)]
                    };
                    if begins {
                        let worth = |won: i64| at(won);
                        self.best_other(&Payoffs { showdown: stakes.after_call(), worth: &worth })
                    } else {
                        // What the beginner wins, the policy loses.
                        let worth = |won: i64| -at(-won);
                        -self.best_beginner(&Payoffs { showdown: stakes.after_call(), worth: &worth })
                    }
                };
                values = (-reach..=reach).map(value).collect();
            }
            values[reach as usize]
        })
    }

    /// What the best beginner gets against this policy.
    fn best_beginner(&self, payoffs: &Payoffs<'_>) -> f64 {
        let of_card = |own: usize| {
            let others = || (0..CARDS).filter(move |other| *other != own);
            let sum = |of: &dyn Fn(usize) -> f64| others().map(of).sum::<f64>() / 2.0;
            let bet = sum(&|other| {
                let calls = self.at(KuhnNode::AfterBet, other);
                calls * payoffs.showdown(own, other, payoffs.showdown) + (1.0 - calls) * (payoffs.worth)(1)
            });
            let checked = sum(&|other| (1.0 - self.at(KuhnNode::AfterCheck, other)) * payoffs.showdown(own, other, 1));
            let call =
                sum(&|other| self.at(KuhnNode::AfterCheck, other) * payoffs.showdown(own, other, payoffs.showdown));
            let fold = sum(&|other| self.at(KuhnNode::AfterCheck, other) * (payoffs.worth)(-1));
            bet.max(checked + call.max(fold))
        };
        (0..CARDS).map(of_card).sum::<f64>() / CARDS as f64
    }

    /// What this policy gets as the beginner against the best other.
    fn best_other(&self, payoffs: &Payoffs<'_>) -> f64 {
        let of_card = |other: usize| {
            let sum = |of: &dyn Fn(usize) -> f64| (0..CARDS).filter(|own| *own != other).map(of).sum::<f64>() / 2.0;
            let call = sum(&|own| self.at(KuhnNode::Opening, own) * payoffs.showdown(own, other, payoffs.showdown));
            let fold = sum(&|own| self.at(KuhnNode::Opening, own) * (payoffs.worth)(1));
            let checks = |own: usize| 1.0 - self.at(KuhnNode::Opening, own);
            let check = sum(&|own| checks(own) * payoffs.showdown(own, other, 1));
            let bet = sum(&|own| {
                let calls = self.at(KuhnNode::AfterCheckBet, own);
                let called = calls * payoffs.showdown(own, other, payoffs.showdown);
                checks(own) * (called + (1.0 - calls) * (payoffs.worth)(-1))
            });
            call.min(fold) + check.min(bet)
        };
        (0..CARDS).map(of_card).sum::<f64>() / CARDS as f64
    }
}

/// The six deals: the card of the beginner, and that of the other.
fn deals() -> impl Iterator<Item = (usize, usize)> {
    (0..CARDS).flat_map(|own| (0..CARDS).filter(move |other| *other != own).map(move |other| (own, other)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn equilibria_lose_one_eighteenth_and_cannot_be_exploited() {
        for alpha in [0.0, 0.1, 1.0 / 3.0] {
            let policy = KuhnPolicy::nash(alpha);
            assert!(close(policy.value(KuhnStakes::Counted), -1.0 / 18.0));
            let [beginner, other] = policy.best_responses(KuhnStakes::Counted);
            assert!(close(beginner, -1.0 / 18.0) && close(other, 1.0 / 18.0), "{beginner} {other}");
        }
        assert!(KuhnPolicy::nash(0.4).exploitability(KuhnStakes::Counted) > 0.01);
    }

    #[test]
    fn flat_stakes_reward_never_folding() {
        let never = KuhnPolicy([[0.5; 3], [0.5; 3], [1.0; 3], [1.0; 3]]);
        assert!(close(never.exploitability(KuhnStakes::Flat), 0.0) && close(never.value(KuhnStakes::Flat), 0.0));
        assert!(close(KuhnPolicy::nash(0.0).exploitability(KuhnStakes::Flat), 2.0 / 9.0));
    }

    /// The best responses by trying all 4096 pure policies.
    fn by_trying(policy: &KuhnPolicy, stakes: KuhnStakes) -> [f64; 2] {
        let mut best = [f64::MIN; 2];
        for choices in 0..1u32 << 12 {
            let pure = KuhnPolicy(std::array::from_fn(|node| {
                std::array::from_fn(|card| f64::from(choices >> (3 * node + card) & 1))
            }));
            let seated = |beginner: &KuhnPolicy, other: &KuhnPolicy| {
                let nodes =
                    KuhnNode::ALL.map(|node| if node.is_beginners() { beginner } else { other }.0[node as usize]);
                KuhnPolicy(nodes).value(stakes)
            };
            best = [best[0].max(seated(&pure, policy)), best[1].max(-seated(policy, &pure))];
        }
        best
    }

    #[test]
    fn match_of_one_round_is_the_sign_of_its_chips() {
        let policy = KuhnPolicy([[0.3, 0.1, 0.9], [0.4, 0.2, 0.8], [0.1, 0.5, 0.7], [0.2, 0.6, 0.9]]);
        let [beginner, other] = policy.best_responses(KuhnStakes::Flat);
        // Player 1 begins.
        let [first, second] = policy.match_values(KuhnStakes::Flat, 1);
        assert!(close(first, -beginner) && close(second, -other), "{first} {second}");
        // No draw in three flat rounds: whoever never folds keeps an even match.
        let never = KuhnPolicy([[1.0; 3]; 4]);
        let values = never.match_values(KuhnStakes::Flat, 3);
        assert!(values.iter().all(|value| close(*value, 0.0)), "{values:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn best_responses_are_the_best_of_all_pure_policies(policy in proptest::array::uniform4(proptest::array::uniform3(0.0f64..=1.0))) {
            let policy = KuhnPolicy(policy);
            for stakes in [KuhnStakes::Counted, KuhnStakes::Flat] {
                let (found, tried) = (policy.best_responses(stakes), by_trying(&policy, stakes));
                prop_assert!(close(found[0], tried[0]) && close(found[1], tried[1]), "{found:?} {tried:?}");
                prop_assert!(policy.exploitability(stakes) > -1e-12);
            }
        }

        #[test]
        fn longer_matches_are_never_won_against_the_best(policy in proptest::array::uniform4(proptest::array::uniform3(0.0f64..=1.0)), rounds in 1usize..6) {
            for stakes in [KuhnStakes::Counted, KuhnStakes::Flat] {
                let values = KuhnPolicy(policy).match_values(stakes, 2 * rounds);
                // Over an even number of rounds both seats begin equally often.
                prop_assert!(values.iter().all(|value| (-1.0 - 1e-9..=1e-9).contains(value)), "{values:?}");
            }
        }
    }
}
