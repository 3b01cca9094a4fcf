# N rows loaded, indexed, queried, changed.
gawk -v n="$N" 'BEGIN { s = 1; for (i = 1; i <= n; i++) { s = (s * 16807) % 2147483647
    print i "," s % 1000 "," s / 2147483647 ",name" s } }' >rows.csv
sqlite3 db <<'END'
create table t(id integer primary key, k integer, x real, name text);
.mode csv
.import rows.csv t
create index tk on t(k);
.mode list
select count(*), sum(k), round(sum(x), 6), min(name), max(name) from t;
select k, count(*), round(avg(x), 9) from t group by k order by 2 desc, 1 limit 5;
select a.id, b.id from t a join t b on a.k = b.k + 1 where a.id < 50 and b.id < 5000 order by 1, 2 limit 10;
begin; update t set x = x * 2 where k % 3 = 0; delete from t where k > 990; commit;
select count(*), round(total(x), 6) from t;
with recursive c(n) as (select 1 union all select n + 1 from c where n < 1000)
  select sum(n), printf('%.10f', sum(1.0 / n)) from c;
select name, length(name), substr(name, 2, 3), upper(hex(name)) from t where name like '%12345%' limit 5;
pragma integrity_check;
END
sqlite3 db .dump | sha256sum
