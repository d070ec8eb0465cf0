//! Emulates AMX tile registers on processors without AMX: the instructions fault, and a signal handler executes
//! them.
//!
//! This runs the real kernels, instruction by instruction as encoded. It supports the six instructions that they
//! use; any other invalid instruction ends the process, as without the handler.

use std::cell::RefCell;
use std::sync::Once;

use half::bf16;

use super::emulation;

/// Rows of a tile, and bytes of a row.
const ROWS: usize = 16;
const ROW_BYTES: usize = 64;

/// The tiles of a thread.
struct Tiles {
    row_bytes: [usize; 8],
    rows: [usize; 8],
    data: [[[u8; ROW_BYTES]; ROWS]; 8],
}

thread_local! {
    static TILES: RefCell<Option<Tiles>> = const { RefCell::new(None) };
}

/// Installs the handler for faults of tile instructions.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler has the signature for SA_SIGINFO; faults are raised by the thread's own instruction, outside
        // of any function that the handler calls.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut())
        };
        assert_eq!(result, 0, "sigaction");
    });
}

extern "C" fn on_fault(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the registers of the thread; its instruction pointer is readable code, of which an
    // instruction has at most 15 bytes, and no page ends within the kernels' functions' last instructions (`ret` follows).
    let executed = unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        Instruction::decode(registers).is_some_and(|instruction| {
            instruction.execute();
            registers[libc::REG_RIP as usize] += instruction.len;
            true
        })
    };
    if !executed {
        // SAFETY: ends the process: the instruction faults again, without a handler.
        unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
    }
}

/// A general register by its number in an instruction.
fn general(registers: &[libc::greg_t], number: u8) -> usize {
    const ORDER: [libc::c_int; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    registers[ORDER[usize::from(number)] as usize] as usize
}

/// A decoded instruction.
enum Action {
    Configure(usize),
    Release,
    Zero(usize),
    Load { tile: usize, at: usize, stride: usize },
    Store { tile: usize, at: usize, stride: usize },
    Dot { sums: usize, a: usize, b: usize },
}

struct Instruction {
    action: Action,
    len: libc::greg_t,
}

impl Instruction {
    /// Decodes the instruction at the instruction pointer: a three-byte VEX prefix, opcode, ModRM, and address.
    ///
    /// # Safety
    /// The instruction pointer must be valid.
    unsafe fn decode(registers: &[libc::greg_t]) -> Option<Self> {
        let code = registers[libc::REG_RIP as usize] as *const u8;
        // SAFETY: guaranteed by the caller.
        let byte = |at: usize| unsafe { *code.add(at) };
        let (inverted, last, opcode, modrm) = (byte(1), byte(2), byte(3), byte(4));
        // The map 0F38, W 0, 128 bits.
        if byte(0) != 0xc4 || inverted & 0x1f != 2 || last & 0x84 != 0 {
            return None;
        }
        let high = |bit: u8| (!inverted >> bit & 1) << 3;
        let (reg, rm) = (modrm >> 3 & 7, modrm & 7);
        let is_register = modrm >> 6 == 3;
        let (mut len, mut at, mut stride) = (5, 0, 0);
        if !is_register {
            let mut base = rm;
            if rm == 4 {
                let sib = byte(len);
                len += 1;
                base = sib & 7;
                let index = sib >> 3 & 7 | high(6);
                if index != 4 {
                    stride = general(registers, index) << (sib >> 6);
                }
            }
            at = general(registers, base | high(5));
            match modrm >> 6 {
                0 if base == 5 => return None,
                0 => {}
                1 => {
                    at = at.wrapping_add_signed(isize::from(byte(len) as i8));
                    len += 1;
                }
                _ => {
                    let bytes = [byte(len), byte(len + 1), byte(len + 2), byte(len + 3)];
                    at = at.wrapping_add_signed(i32::from_le_bytes(bytes) as isize);
                    len += 4;
                }
            }
        }
        let tile = usize::from(reg);
        let action = match (opcode, last & 3, is_register) {
            (0x49, 0, false) => Action::Configure(at),
            (0x49, 0, true) if modrm == 0xc0 => Action::Release,
            (0x49, 3, true) => Action::Zero(tile),
            (0x4b, 3, false) if rm == 4 => Action::Load { tile, at, stride },
            (0x4b, 2, false) if rm == 4 => Action::Store { tile, at, stride },
            (0x5c, 2, true) => Action::Dot { sums: tile, a: usize::from(rm), b: usize::from(!(last >> 3) & 7) },
            _ => return None,
        };
        Some(Self { action, len: len as libc::greg_t })
    }

    /// # Safety
    /// The addresses must be those of a correct kernel.
    unsafe fn execute(&self) {
        TILES.with_borrow_mut(|tiles| {
            if let Action::Configure(at) = self.action {
                // SAFETY: guaranteed by the caller.
                *tiles = Some(unsafe { Tiles::configured(at as *const u8) });
                return;
            }
            let tiles = tiles.as_mut().expect("tiles that are not configured");
            match self.action {
                Action::Configure(_) => {}
                Action::Release => tiles.rows = [0; 8],
                Action::Zero(tile) => tiles.data[tile] = [[0; ROW_BYTES]; ROWS],
                Action::Load { tile, at, stride } => {
                    tiles.data[tile] = [[0; ROW_BYTES]; ROWS];
                    for row in 0..tiles.of(tile).0 {
                        let (from, len) = ((at + row * stride) as *const u8, tiles.row_bytes[tile]);
                        // SAFETY: guaranteed by the caller.
                        unsafe { from.copy_to(tiles.data[tile][row].as_mut_ptr(), len) }
                    }
                }
                Action::Store { tile, at, stride } => {
                    for row in 0..tiles.of(tile).0 {
                        let (to, len) = ((at + row * stride) as *mut u8, tiles.row_bytes[tile]);
                        // SAFETY: guaranteed by the caller.
                        unsafe { to.copy_from(tiles.data[tile][row].as_ptr(), len) }
                    }
                }
                Action::Dot { sums, a, b } => tiles.dot(sums, a, b),
            }
        });
    }
}

impl Tiles {
    /// # Safety
    /// 64 bytes must be readable.
    unsafe fn configured(at: *const u8) -> Self {
        // SAFETY: guaranteed by the caller.
        let bytes = unsafe { std::slice::from_raw_parts(at, 64) };
        assert!(bytes[0] == 1 && bytes[1..16].iter().all(|byte| *byte == 0), "an invalid configuration");
        let row_bytes =
            std::array::from_fn(|tile| usize::from(bytes[16 + 2 * tile]) + 256 * usize::from(bytes[17 + 2 * tile]));
        let rows = std::array::from_fn(|tile| usize::from(bytes[48 + tile]));
        assert!(rows.iter().all(|rows| *rows <= ROWS) && row_bytes.iter().all(|bytes| *bytes <= ROW_BYTES));
        Self { row_bytes, rows, data: [[[0; ROW_BYTES]; ROWS]; 8] }
    }

    /// Rows, and bytes per row, of a tile in use.
    fn of(&self, tile: usize) -> (usize, usize) {
        assert!(self.rows[tile] > 0 && self.row_bytes[tile] > 0, "tile {tile} is not configured");
        (self.rows[tile], self.row_bytes[tile])
    }

    /// `TDPBF16PS`.
    fn dot(&mut self, sums: usize, a: usize, b: usize) {
        let ((rows, sum_bytes), (a_rows, a_bytes), (b_rows, b_bytes)) = (self.of(sums), self.of(a), self.of(b));
        // The processor faults otherwise.
        assert!(a_rows == rows && b_bytes == sum_bytes && a_bytes == 4 * b_rows, "tiles do not fit");
        let number = |bytes: &[u8]| bf16::from_le_bytes([bytes[0], bytes[1]]);
        let pair = |row: &[u8], at: usize| [number(&row[4 * at..]), number(&row[4 * at + 2..])];
        for row in 0..rows {
            let left: Vec<_> = (0..b_rows).map(|step| pair(&self.data[a][row], step)).collect();
            for column in 0..sum_bytes / 4 {
                let right: Vec<_> = (0..b_rows).map(|step| pair(&self.data[b][step], column)).collect();
                let sum = &mut self.data[sums][row][4 * column..][..4];
                let before = f32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
                sum.copy_from_slice(&emulation::tile_dot(before, &left, &right).to_le_bytes());
            }
        }
    }
}
