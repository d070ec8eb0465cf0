//! Checks the machine code of the hot kernels in this test's own executable: their innermost loops must multiply whole
//! registers. The compiler may turn an intrinsic or a closure into scalar code or a call without failing any test of results.

use std::process::Command;

/// Requirements on the loops of a function.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// Each instance multiplies registers in a loop, and has no loop of scalar multiply-adds.
    Kernel,
    /// Instances with a loop of scalar multiply-adds, for the rest of a slice, also have one on registers; at least one such
    /// instance exists.
    WithRest,
}

/// Symbols, as parts of demangled names; the instruction of their loops; and the rule.
#[cfg(target_arch = "aarch64")]
const WANTED: [(&str, &str, Rule); 1] = [("spag_ops::product::tile::neon::kernel", "fmla", Rule::Kernel)];
#[cfg(target_arch = "x86_64")]
const WANTED: [(&str, &str, Rule); 6] = [
    ("spag_ops::product::tile::avx2::kernel", "vfmadd", Rule::Kernel),
    ("spag_ops::product::tile::avx512::kernel", "vfmadd", Rule::Kernel),
    ("spag_ops::product::dot::kernel", "vdpbf16ps", Rule::Kernel),
    ("product::amx::Tiles as spag_ops::product::format::Format>::tile", "tdpbf16ps", Rule::Kernel),
    ("spag_ops::simd::vectorized::avx2", "vfmadd", Rule::WithRest),
    ("spag_ops::simd::vectorized::avx512", "vfmadd", Rule::WithRest),
];

/// An x86 or Arm instruction (with different mnemonics) in objdump's notation.
struct Instruction<'a> {
    at: u64,
    name: &'a str,
    operands: &'a str,
}

impl Instruction<'_> {
    /// The jump target.
    fn target(&self) -> Option<u64> {
        let jumps = self.name.starts_with('j')
            || self.name.starts_with("b.")
            || ["b", "cbz", "cbnz", "tbz", "tbnz"].contains(&self.name);
        let address = self.operands.split('<').next()?.split([' ', ',']).rfind(|word| !word.is_empty())?;
        u64::from_str_radix(address, 16).ok().filter(|_| jumps)
    }

    fn calls(&self) -> bool {
        ["call", "bl", "blr"].contains(&self.name)
    }

    /// Whether it is the instruction `packed` on a full register of floats.
    fn multiplies_registers(&self, packed: &str) -> bool {
        let floats = self.name.ends_with("ps") || self.operands.contains(".4s");
        self.name.starts_with(packed) && floats
    }

    /// The name without its scalar suffix; `None` if it is not a scalar instruction.
    fn scalar_name(&self) -> Option<&str> {
        match self.operands.strip_prefix('s') {
            Some(rest) if rest.starts_with(|digit: char| digit.is_ascii_digit()) => Some(self.name),
            _ => self.name.trim_start_matches('v').strip_suffix("ss"),
        }
    }
}

struct Function<'a> {
    symbol: &'a str,
    code: Vec<Instruction<'a>>,
}

impl<'a> Function<'a> {
    /// The functions of objdump's output.
    fn all(text: &'a str) -> Vec<Self> {
        let mut functions = Vec::<Self>::new();
        for line in text.lines() {
            let address = |text: &str| u64::from_str_radix(text, 16).ok();
            if let Some((_, symbol)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
                functions.push(Self { symbol, code: Vec::new() });
            } else if let (Some((at, rest)), Some(function)) = (line.split_once(':'), functions.last_mut()) {
                let rest = rest.trim();
                let (name, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                if let Some(at) = address(at.trim()).filter(|_| !name.is_empty()) {
                    function.code.push(Instruction { at, name, operands: operands.trim_start() });
                }
            }
        }
        functions
    }

    /// Innermost loops: the spans of backward jumps without another loop inside.
    fn innermost_loops(&self) -> Vec<&[Instruction<'a>]> {
        let index = |at: u64| self.code.binary_search_by_key(&at, |instruction| instruction.at).ok();
        let back = |(last, jump): (usize, &Instruction<'_>)| {
            let first = index(jump.target()?)?;
            (first <= last).then_some((first, last))
        };
        let spans: Vec<(usize, usize)> = self.code.iter().enumerate().filter_map(back).collect();
        let holds =
            |outer: &(usize, usize), inner: &(usize, usize)| outer != inner && outer.0 <= inner.0 && inner.1 <= outer.1;
        let innermost = spans.iter().filter(|outer| !spans.iter().any(|inner| holds(outer, inner)));
        innermost.map(|(first, last)| &self.code[*first..=*last]).collect()
    }

    /// The violation of the rule, if any.
    fn problem(&self, packed: &str, rule: Rule) -> Option<&'static str> {
        let loops = self.innermost_loops();
        let on_registers: Vec<_> = loops.iter().filter(|code| multiplies_registers(code, packed)).collect();
        let scalar = loops.iter().any(|code| multiplies_scalars(code));
        match rule {
            Rule::Kernel if on_registers.is_empty() => Some("no loop multiplies registers"),
            Rule::Kernel if scalar => Some("a loop multiplies scalars"),
            Rule::WithRest if scalar && on_registers.is_empty() => {
                Some("a loop multiplies scalars, and none registers")
            }
            _ if on_registers.iter().any(|code| code.iter().any(Instruction::calls)) => {
                Some("a loop that multiplies registers calls a function")
            }
            _ => None,
        }
    }
}

fn multiplies_registers(code: &[Instruction<'_>], packed: &str) -> bool {
    code.iter().any(|instruction| instruction.multiplies_registers(packed))
}

/// Whether code has scalar fused multiply-adds, or scalar multiplies and adds.
fn multiplies_scalars(code: &[Instruction<'_>]) -> bool {
    let names = || code.iter().filter_map(Instruction::scalar_name);
    let fused = |name: &str| ["fmadd", "fmsub", "fnmadd", "fnmsub"].iter().any(|start| name.starts_with(start));
    let both = |halves: [&str; 2]| halves.iter().all(|half| names().any(|name| name == *half));
    names().any(fused) || both(["mul", "add"]) || both(["fmul", "fadd"])
}

/// Whether a demangled name is an instance of the symbol, and not a closure in it. Newer compilers keep generic arguments
/// in names.
fn is_instance(name: &str, symbol: &str) -> bool {
    name.split_once(symbol).is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with("::<") && rest.ends_with('>'))
}

#[test]
fn hot_loops_multiply_registers() {
    if cfg!(debug_assertions) {
        eprintln!("NOT TESTED: the machine code of the kernels, which is that of a build with --release");
        return;
    }
    let executable = std::env::current_exe().unwrap();
    // Under emulation, binutils of the target have a prefix.
    let objdump = std::env::var("OBJDUMP").unwrap_or("objdump".into());
    let output = match Command::new(objdump).args(["-d", "-C", "--no-show-raw-insn"]).arg(executable).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("NOT TESTED: the machine code of the kernels, since objdump (binutils) cannot run: {error}");
            return;
        }
    };
    assert!(output.status.success(), "objdump: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let functions = Function::all(&text);
    let mut problems = Vec::new();
    for (symbol, packed, rule) in WANTED {
        let instances: Vec<_> = functions.iter().filter(|function| is_instance(function.symbol, symbol)).collect();
        let on_registers = |function: &&&Function<'_>| {
            function.innermost_loops().iter().any(|code| multiplies_registers(code, packed))
        };
        eprintln!(
            "{symbol}: {} instances, {} with {packed}",
            instances.len(),
            instances.iter().filter(on_registers).count()
        );
        if !instances.iter().any(|function| on_registers(&function)) {
            problems.push(format!("{symbol}: no instance has a loop of {packed}"));
        }
        for function in instances {
            if let Some(problem) = function.problem(packed, rule) {
                let at = function.code.first().map_or(0, |instruction| instruction.at);
                problems.push(format!("{symbol} at {at:#x}: {problem}"));
            }
        }
    }
    if cfg!(target_arch = "aarch64") {
        // Every Arm processor has fused multiply-add. On x86 the portable path calls a function.
        let calls_fma = |function: &&Function<'_>| {
            let mut calls = function.code.iter().filter(|instruction| instruction.calls());
            function.symbol.contains("spag_ops::") && calls.any(|call| call.operands.contains("<fma"))
        };
        problems.extend(functions.iter().filter(calls_fma).map(|function| format!("{} calls fma", function.symbol)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn scalar_loops_are_found() {
    let text = "0000000000001000 <a::kernel>:
    1000:\tvfmadd231ps %ymm0,%ymm1,%ymm2
    1004:\tjmp    1008 <a::kernel+0x8>
    1008:\tvfmadd231ss %xmm0,%xmm1,%xmm2
    100c:\tjne    1008 <a::kernel+0x8>
    1010:\tret
0000000000002000 <a::kernel>:
    2000:\tvfmadd231ps %ymm0,%ymm1,%ymm2
    2004:\tcall   1000 <a::kernel>
    2008:\tjne    2000 <a::kernel>
    200a:\tjne    2000 <a::kernel>
0000000000003000 <a::kernel>:
    3000:\tmulss  %xmm0,%xmm1
    3004:\taddss  %xmm1,%xmm2
    3008:\tjne    3000 <a::kernel>
";
    let problems = |text, packed| -> Vec<_> {
        Function::all(text).iter().map(|function| function.problem(packed, Rule::WithRest)).collect()
    };
    let scalar = Some("a loop multiplies scalars, and none registers");
    let calls = Some("a loop that multiplies registers calls a function");
    assert_eq!(problems(text, "vfmadd"), [scalar, calls, scalar]);
    let text = "0000000000001000 <a::kernel>:
    1000:\tfmla\tv2.4s, v1.4s, v0.s[0]
    1004:\tb\t1008 <a::kernel+0x8>
    1008:\tfmadd\ts0, s1, s2, s0
    100c:\tcbnz\tx0, 1008 <a::kernel+0x8>
    1010:\tret
0000000000002000 <a::kernel>:
    2000:\tfmla\tv2.4s, v1.4s, v0.s[0]
    2004:\tbl\t1000 <a::kernel>
    2008:\tb.ne\t2000 <a::kernel>  // b.any
0000000000003000 <a::kernel>:
    3000:\tfmul\ts0, s0, s1
    3004:\tfadd\ts2, s2, s0
    3008:\tb.ne\t3000 <a::kernel>  // b.any
0000000000004000 <a::kernel>:
    4000:\tfmla\tv2.4s, v1.4s, v0.s[0]
    4004:\ttbz\tw0, #3, 4000 <a::kernel>
";
    assert_eq!(problems(text, "fmla"), [scalar, calls, scalar, None]);
    assert!(is_instance("m::a::kernel", "a::kernel") && is_instance("m::a::kernel::<f32, 1>", "a::kernel"));
    assert!(!is_instance("m::a::kernel::{{closure}}", "a::kernel"));
}
