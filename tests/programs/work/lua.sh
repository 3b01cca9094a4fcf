# An interpreter: closures, tables, strings, floating point, coroutines, garbage.
cat >work.lua <<'END'
local n = tonumber(arg[1])
local function sieve(m)
  local t, count = {}, 0
  for i = 2, m do
    if not t[i] then count = count + 1; for j = i * i, m, i do t[j] = true end end
  end
  return count
end
print(sieve(n))
local parts = {}
for i = 1, n // 10 do parts[#parts + 1] = string.format("%d:%.17g:%a", i, i / 7, math.sqrt(i)) end
local text = table.concat(parts, ",")
print(#text, select(2, text:gsub("1", "")))
table.sort(parts); print(parts[1], parts[#parts])
local gen = coroutine.wrap(function() for i = 1, n do coroutine.yield(i * i) end end)
local sum = 0; for i = 1, n do sum = sum + gen() end
print(sum, sum % 1000003, math.maxinteger + 1 == math.mininteger, 7 // -2, -7 % 3, 7.5 // -2)
local x = 0.0; for i = 1, n do x = x + math.sin(i) * math.exp(-i / n) end
print(string.format("%.17g", x), 1 / 0, -1 / 0, 0 / 0 ~= 0 / 0, 2 ^ 53, 1e308 * 10, 5e-324 / 2)
print(pcall(error, { code = 7 }), pcall(function() local a; return a.b end))
print(string.pack(">i4d", 42, 1.5):byte(1, -1))
END
lua work.lua "$N"
