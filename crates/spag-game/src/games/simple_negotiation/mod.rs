//! Negotiation: two players trade goods that they value differently.

mod offer;

use serde_json::{Map, Value, json};

use super::declare::{ending, labels};
use super::dont_say_it::turns;
use super::native::{Native, Position, object};
use super::options::Options;
use super::patterns::has_token;
use super::python_random::PythonRandom;
use super::table::Table;
use crate::ending::{DRAW, INVALID};
use crate::error::Result;
use crate::game::Refusal;
use crate::labels::Labels;
use crate::message::MessageKind;
use offer::{Bundle, Offer, Trade};

ending!(
    /// A player has the larger gain at its own prices.
    GAIN, "gain", "larger gain", "a player has the larger gain at its own prices and wins"
);
labels!("simple-negotiation", "Simple Negotiation", Sentences, [GAIN, DRAW, INVALID]);

/// A good, with the prices that a player may have for it.
#[derive(Debug, PartialEq, Eq)]
struct Good {
    name: &'static str,
    prices: (u32, u32),
}

/// TextArena's goods.
const FIVE: &[Good] = &[
    Good { name: "Wheat", prices: (5, 6) },
    Good { name: "Wood", prices: (8, 12) },
    Good { name: "Sheep", prices: (12, 18) },
    Good { name: "Brick", prices: (20, 30) },
    Good { name: "Ore", prices: (32, 40) },
];
/// Two goods, as in SPIRAL.
const TWO: &[Good] = &[Good { name: "Wood", prices: (8, 12) }, Good { name: "Gold", prices: (32, 40) }];

/// How many of a good each player begins with.
const AMOUNTS: (u32, u32) = (5, 25);

/// The goods and the number of turns.
#[derive(Debug)]
pub(crate) struct SimpleNegotiation {
    goods: &'static [Good],
    max_turns: u64,
}

impl SimpleNegotiation {
    pub(crate) fn new(options: &mut Options<'_>) -> Result<Self> {
        let max_turns = options.integer("max_turns", 2..=200, 10)?;
        let goods = match options.integer("goods", 2..=5, 5)? {
            5 => FIVE,
            2 => TWO,
            _ => return Err(options.error("goods", "needs 2 or 5".to_owned())),
        };
        Ok(Self { goods, max_turns })
    }
}

impl Native for SimpleNegotiation {
    type Position = Market;

    const LABELS: &'static Labels = &LABELS;
    const AMOUNTS: Option<&'static str> = Some("gains");

    fn deal(&self, _: &str, mut random: PythonRandom) -> Result<Market> {
        let mut draw = |range: &dyn Fn(&Good) -> (u32, u32)| -> [Bundle; 2] {
            std::array::from_fn(|_| {
                self.goods.iter().map(range).map(|(low, high)| random.in_range(low, high).into()).collect()
            })
        };
        let owned = draw(&|_| AMOUNTS);
        let prices = draw(&|good| good.prices);
        let goods = self.goods;
        Ok(Market { goods, initial: owned.clone(), owned, prices, offer: None, trades: 0, max_turns: self.max_turns })
    }
}

/// What both players own, their prices, and the offer that stands. Bundles are in the order of the goods.
#[derive(Clone, Debug)]
pub(crate) struct Market {
    goods: &'static [Good],
    owned: [Bundle; 2],
    initial: [Bundle; 2],
    prices: [Bundle; 2],
    offer: Option<Offer>,
    trades: usize,
    max_turns: u64,
}

impl Market {
    /// Whether a player has at least what a bundle holds.
    fn has(&self, player: usize, bundle: &[u64]) -> bool {
        self.owned[player].iter().zip(bundle).all(|(own, asked)| own >= asked)
    }

    /// Moves goods that the giver has.
    fn give(&mut self, giver: usize, bundle: &[u64]) {
        for (good, amount) in bundle.iter().enumerate() {
            self.owned[giver][good] -= amount;
            self.owned[1 - giver][good] += amount;
        }
    }

    /// The value of what a player owns beyond that of what it began with.
    fn gain(&self, player: usize) -> i64 {
        let value =
            |owned: &Bundle| owned.iter().zip(&self.prices[player]).map(|(own, price)| own * price).sum::<u64>();
        value(&self.owned[player]) as i64 - value(&self.initial[player]) as i64
    }

    /// Accepts the offer that stands, or lets it stand.
    fn answer_offer(&mut self, action: &str, table: &mut Table) {
        let Some(offer) = &self.offer else { return };
        let player = table.player();
        if !has_token(action, "accept") {
            let text = format!("Player {player} does not accept the offer.");
            return table.tell(MessageKind::Description, text);
        }
        if !self.has(player, &offer.trade.requested) {
            return table.refuse(Refusal::Illegal, "you do not have what the offer asks for.");
        }
        let Some(Offer { from, trade }) = self.offer.take() else { return };
        // A player that accepts its own offer gives to itself.
        if from != player {
            self.give(from, &trade.offered);
            self.give(player, &trade.requested);
        }
        self.trades += 1;
        table.tell(MessageKind::Description, format!("Player {player} accepts the offer of player {from}."));
    }

    /// Takes a new offer, if there is one.
    fn take_offer(&mut self, action: &str, table: &mut Table) {
        let player = table.player();
        let Some(offer) = offer::find(action) else {
            return table.tell(MessageKind::Description, format!("Player {player} makes no new offer."));
        };
        let Some(trade) = Trade::parse(offer, self.goods) else {
            return table.refuse(Refusal::Format, "an offer looks like [Offer: 2 Wood, 1 Ore -> 3 Wheat].");
        };
        if !self.has(player, &trade.offered) {
            return table.refuse(Refusal::Illegal, "you do not have what you offer.");
        }
        let [offered, requested] = [&trade.offered, &trade.requested].map(|bundle| self.list(bundle));
        let text = format!("Player {player} offers {offered} for {requested}.");
        table.tell(MessageKind::Description, text);
        self.offer = Some(Offer { from: player, trade });
    }

    /// The goods of a bundle as text.
    fn list(&self, bundle: &[u64]) -> String {
        let some = self.goods.iter().zip(bundle).filter(|(_, amount)| **amount > 0);
        some.map(|(good, amount)| format!("{amount} {}", good.name)).collect::<Vec<_>>().join(", ")
    }

    /// A bundle as a JSON object, with the goods that `shown` accepts.
    fn json(&self, bundle: &[u64], shown: impl Fn(u64) -> bool) -> Value {
        let some = self.goods.iter().zip(bundle).filter(|(_, amount)| shown(**amount));
        some.map(|(good, amount)| (good.name.to_owned(), Value::from(*amount))).collect::<Map<_, _>>().into()
    }
}

impl Position for Market {
    fn prompt(&self, player: usize) -> String {
        let (own, prices) = (&self.owned[player], &self.prices[player]);
        let goods: Vec<String> = self
            .goods
            .iter()
            .zip(own.iter().zip(prices))
            .map(|(good, (own, price))| format!("{}: you have {own}, each is worth {price} to you", good.name))
            .collect();
        let (first, last) = (self.goods[0].name, self.goods[self.goods.len() - 1].name);
        format!(
            "This is a negotiation, and you are player {player}. Both players own goods, which have other prices for the \
             other player. Trade so that the value of your goods grows: after {} turns the larger gain wins.\n\
             {}\n\
             You may talk, and write in brackets:\n\
             [Offer: 3 {first} -> 2 {last}] offers to give 3 {first} for 2 {last}.\n\
             [Accept] accepts the offer that stands.\n\
             [Deny] refuses it, as does every text without [Accept].",
            self.max_turns,
            goods.join("\n"),
        )
    }

    fn play(&mut self, action: &str, table: &mut Table) {
        self.answer_offer(action, table);
        if !table.is_over() {
            self.take_offer(action, table);
        }
        if table.is_over() || (table.turn() as u64) < self.max_turns {
            return;
        }
        let gains = [self.gain(0), self.gain(1)];
        table.count(gains);
        match gains[0].cmp(&gains[1]) {
            std::cmp::Ordering::Equal => table.tie(DRAW),
            std::cmp::Ordering::Greater => table.win(0, GAIN),
            std::cmp::Ordering::Less => table.win(1, GAIN),
        }
    }

    fn public(&self, table: &Table) -> Map<String, Value> {
        let mut state = turns(table, self.max_turns);
        let offer = self.offer.as_ref().map(|offer| {
            let some = |bundle: &[u64]| self.json(bundle, |amount| amount > 0);
            json!({
                "from": offer.from,
                "offered": some(&offer.trade.offered),
                "requested": some(&offer.trade.requested),
            })
        });
        state.insert("offer".into(), json!(offer));
        state.insert("trades".into(), self.trades.into());
        if table.is_over() {
            state.insert("gains".into(), json!([self.gain(0), self.gain(1)]));
        }
        state
    }

    fn private(&self, player: usize) -> Map<String, Value> {
        object([
            ("resources", self.json(&self.owned[player], |_| true)),
            ("values", self.json(&self.prices[player], |_| true)),
            ("gain", self.gain(player).into()),
        ])
    }
}
